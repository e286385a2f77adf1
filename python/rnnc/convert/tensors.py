"""Weights of Keras' layers and Flax's cells as arrays by name, as the maps keras/… and flax/… take them.

Neither package is imported: a layer or a tree of arrays is read as it is.
"""

from collections.abc import Mapping

import numpy


def keras_tensors(layer):
    """Of a recurrent layer, or a `Bidirectional` of one ("forward/kernel"), of Keras 3."""
    if hasattr(layer, "forward_layer"):
        sides = {"forward": layer.forward_layer, "backward": layer.backward_layer}
        return {f"{s}/{n}": a for s, one in sides.items() for n, a in keras_tensors(one).items()}
    if not hasattr(layer, "cell"):
        raise ValueError(f"{type(layer).__name__} is neither a recurrent layer nor Bidirectional")
    tensors = {variable.name: numpy.asarray(variable) for variable in layer.cell.weights}
    if "bias" in tensors:  # a GRU's has two rows
        tensors["bias"] = tensors["bias"].reshape(-1)
    return tensors


def flax_tensors(params):
    """Of a cell's nested dict: params["cell"] of linen's RNN, or nnx.to_pure_dict(nnx.state(cell)).

    What is within is named by its path: "hi/kernel".
    """
    tensors = {}
    for name, value in params.items():
        if isinstance(value, Mapping):
            tensors.update({f"{name}/{n}": a for n, a in flax_tensors(value).items()})
        else:
            tensors[str(name)] = numpy.asarray(value)
    return tensors
