"""`frozen`: weights that do not change are packed once."""

import contextlib

from rnnc.torch.cell import Cell
from rnnc.torch.layers import Layers


@contextlib.contextmanager
def frozen(model):
    """Within it, rnnc's modules in `model` pack weights only when they see a change.

        with rnnc.torch.frozen(model), torch.no_grad():
            for x in stream: y, states = model(x, states=states)

    A change is another tensor, or one in place that PyTorch counts (`Tensor._version`): writing through
    `.data` or NumPy is not seen. For inference: a call that needs gradients of weights is an error. A
    CUDA graph packs at each replay all the same.
    """
    modules = [module for module in model.modules() if isinstance(module, (Cell, Layers))]
    before = [module.frozen for module in modules]
    for module in modules:
        module.frozen = True
    try:
        yield model
    finally:
        for module, value in zip(modules, before):
            module.frozen = value
