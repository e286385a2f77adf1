"""Makes keras_flax_models.npz: recurrent layers of Keras 3 and Flax, their weights as rnnc.convert reads
them, and what they give, in float32.

    PYTHONPATH=python RNNC_LIBRARY=… python3 tests/goldens/make_keras_flax_models.py
        # needs keras, flax, jax; a minute

For each model, under the name of its map (`keras/gru`): `w:*` the tensors; `x` [T, B, I]; `y`.
"""

import os
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"

import flax.linen as linen
import jax
import keras
import numpy as np
from flax import nnx

from rnnc.convert import flax_tensors, keras_tensors

STEPS, BATCH, INPUT, HIDDEN = 5, 2, 3, 4
layers = keras.layers
KERAS = {
    "lstm": lambda: layers.LSTM(HIDDEN, return_sequences=True),
    "gru": lambda: layers.GRU(HIDDEN, return_sequences=True),
    "gru_reset_before": lambda: layers.GRU(HIDDEN, return_sequences=True, reset_after=False),
    "rnn": lambda: layers.SimpleRNN(HIDDEN, return_sequences=True),
}
LINEN = {"lstm": linen.OptimizedLSTMCell, "gru": linen.GRUCell, "rnn": linen.SimpleCell}
NNX = {
    "nnx_lstm": nnx.LSTMCell,
    "nnx_optimized_lstm": nnx.OptimizedLSTMCell,
    "nnx_gru": nnx.GRUCell,
    "nnx_rnn": nnx.SimpleCell,
}


def of_keras(layer, x, random):
    layer(x)
    layer.set_weights([random.normal(size=w.shape) * 0.5 for w in layer.weights])
    return keras_tensors(layer), layer(x)


def of_linen(cell, x, random):
    module = linen.RNN(cell(HIDDEN))
    params = module.init(jax.random.key(0), x)
    params = jax.tree.map(lambda a: np.float32(random.normal(size=a.shape) * 0.5), params)
    return flax_tensors(params["params"]["cell"]), module.apply(params, x)


def of_nnx(cell, x, random):
    module = cell(INPUT, HIDDEN, rngs=nnx.Rngs(0))
    state = nnx.state(module, nnx.Param)
    nnx.update(module, jax.tree.map(lambda a: np.float32(random.normal(size=a.shape) * 0.5), state))
    return flax_tensors(nnx.to_pure_dict(nnx.state(module, nnx.Param))), nnx.RNN(module, rngs=nnx.Rngs(0))(x)


def main():
    random = np.random.default_rng(1)
    x = random.normal(size=(BATCH, STEPS, INPUT)).astype(np.float32)
    models = {f"keras/{name}": of_keras(make(), x, random) for name, make in KERAS.items()}
    for name in ("lstm", "gru", "rnn"):
        layer = layers.Bidirectional(KERAS[name]())
        models[f"keras/bidirectional_{name}"] = of_keras(layer, x, random)
    models |= {f"flax/{name}": of_linen(cell, x, random) for name, cell in LINEN.items()}
    models |= {f"flax/{name}": of_nnx(cell, x, random) for name, cell in NNX.items()}
    arrays = {}
    for name, (tensors, y) in models.items():
        arrays |= {f"{name}:w:{tensor}": array for tensor, array in tensors.items()}
        arrays |= {f"{name}:x": x.swapaxes(0, 1), f"{name}:y": np.asarray(y).swapaxes(0, 1)}
    np.savez(Path(__file__).with_name("keras_flax_models.npz"), **arrays)


if __name__ == "__main__":
    main()
