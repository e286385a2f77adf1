"""Makes the goldens: what the shipped cells give in float64, for a grid of sizes and roundings.

    python3 tests/goldens/make_goldens.py [CELL…]      # a minute; README.md says what it needs

Inputs, params and initial states are not stored: Python and C++ make the same (deterministic.py).
Of each output and final state 64 values are kept, at places that its size decides, and one random
projection of the whole. The file's metadata tells C++ the cases, with every dim's value.

gradients/ has those of sum(w * outputs) + sum(v * final states), w and v random, by every input,
param and given initial state: by PyTorch's autograd.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

import cells
import cells_gated
import cells_networks
import cells_scan
import deterministic

FOLDER = Path(__file__).resolve().parent
GRADIENTS = FOLDER / "gradients"
ROUNDINGS = ("f32", "bf16", "f16")
SAMPLES = 64

# Steps, batch, hidden size, input size, whether initial states are given.
FULL_GRID = [
    (steps, batch, hidden, inputs, (h + b + t) % 2 == 1)
    for h, (hidden, inputs) in enumerate(((1, 3), (7, 1), (64, 33), (300, 7)))
    for b, batch in enumerate((1, 3, 16))
    for t, steps in enumerate((1, 7, 33))
]
GRID = [
    (1, 3, 1, 3, False),
    (33, 1, 3, 2, False),
    (7, 3, 7, 1, True),
    (33, 16, 33, 7, True),
    (7, 2, 300, 5, False),
]
LARGE = (3, 2, 1000, 5, True)


class Data:
    """The arrays of one case. Params and inputs are rounded to its type, states to float32.

    Numbers lie around zero unless `around` says where, which a name must say alike in all cases.
    """

    def __init__(self, cell, steps, batch, hidden, inputs, rounding, given_states):
        self.cell, self.steps, self.batch = cell, steps, batch
        self.sizes = {"H": hidden, "I": inputs}
        self.rounding, self.given_states = rounding, given_states
        self.source = "equations"  # or the library whose cell this is
        self.dims, self.around = {}, {}
        self.leaves = {}  # inputs, params and given states by name

    def dim(self, name, value):
        """Binds a dim of the cell."""
        self.dims[name] = value
        return value

    @property
    def hidden(self):
        return self.dim("H", self.sizes["H"])

    @property
    def inputs(self):
        return self.dim("I", self.sizes["I"])

    def input(self, name, *shape, around=0):
        """[T, B, shape…], numbers within 1 of `around`."""
        return self._values(name, (self.steps, self.batch, *shape), 1, around)

    @property
    def x(self):
        return self.input("x", self.inputs)

    def param(self, name, *shape, around=0):
        """Numbers within 1 / sqrt(last extent) of `around` for matrices, 0.5 for vectors."""
        scale = 1 / math.sqrt(shape[-1]) if len(shape) >= 2 else 0.5
        return self._values(name, shape, scale, around)

    def state(self, name, *shape, declared=0, around=0):
        """[B, shape…]; a state that the case does not give starts as the cell declares."""
        if around:
            self.around[name] = around
        shape = (self.batch, *shape)
        if not self.given_states:
            return torch.full(shape, declared, dtype=torch.float64)
        return self._leaf(name, shape, 1, "f32", around)

    def _values(self, name, shape, scale, around):
        if around:
            self.around[name] = around
        return self._leaf(name, shape, scale, self.rounding, around)

    def _leaf(self, name, shape, scale, rounding, around):
        if name not in self.leaves:
            values = deterministic.values(f"{self.cell}.{name}", shape, scale, rounding, around)
            self.leaves[name] = values.requires_grad_(torch.is_grad_enabled())
        assert self.leaves[name].shape == shape
        return self.leaves[name]


def summarise(tensor):
    """Samples of the tensor, then its projection."""
    flat = tensor.detach().numpy().ravel()
    n = len(flat)
    places = np.arange(n) if n <= SAMPLES else deterministic.bits("places", SAMPLES) % np.uint64(n)
    weights = deterministic.values("projection", (n,), 1, "f64").numpy()
    return np.append(flat[places.astype(np.int64)], np.sum(weights * flat) / math.sqrt(n))


def goldens_of(cell, grid):
    """The tensors, and the metadata that tells C++ how to make their cases."""
    tensors, cases, around, source = {}, [], {}, ""
    for steps, batch, hidden, inputs, given in grid:
        name = f"T{steps}_B{batch}_H{hidden}"
        for rounding in ROUNDINGS:
            data = Data(cell.__name__, steps, batch, hidden, inputs, rounding, given)
            outputs, finals = cell(data)
            results = outputs | {f"final.{state}": value for state, value in finals.items()}
            for result, value in results.items():
                tensors[f"{name}_{rounding}/{result}"] = summarise(value)
        around, source = around | data.around, data.source
        cases.append(
            {"name": name, "steps": steps, "batch": batch, "given_states": given, "dims": data.dims}
        )
    return tensors, {"golden": json.dumps({"source": source, "around": around, "cases": cases})}


@torch.enable_grad()
def gradients_of(cell):
    """The same of gradients; None of a cell that is not PyTorch's to differentiate."""
    tensors, cases, around, source = {}, [], {}, ""
    for steps, batch, hidden, inputs, given in GRID:
        if hidden > 33:
            continue
        data = Data(cell.__name__, steps, batch, hidden, inputs, "f32", given)
        try:
            outputs, finals = cell(data)
        except RuntimeError:  # ONNX takes no tensors that want gradients
            return None
        results = outputs | {f"final.{state}": value for state, value in finals.items()}
        loss = sum(
            (deterministic.values(f"gradient.{name}", tuple(value.shape), 1, "f64") * value).sum()
            for name, value in results.items()
        )
        gradients = torch.autograd.grad(loss, list(data.leaves.values()), materialize_grads=True)
        name = f"T{steps}_B{batch}_H{hidden}"
        for leaf, gradient in zip(data.leaves, gradients):
            tensors[f"{name}_f32/{leaf}"] = summarise(gradient)
        around, source = around | data.around, data.source
        cases.append(
            {"name": name, "steps": steps, "batch": batch, "given_states": given, "dims": data.dims}
        )
    return tensors, {"golden": json.dumps({"source": source, "around": around, "cases": cases})}


def grid_of(cell):
    if cell in [*cells.CELLS, cells_networks.StackedLSTM]:
        return FULL_GRID
    return GRID + [LARGE] * (cell in cells_gated.LARGE + cells_scan.LARGE)


def write_twin_values():
    """What the test of the C++ twin compares with."""
    streams = [
        {"name": name, "scale": scale, "rounding": rounding, "around": around}
        | {"values": deterministic.values(name, (40,), scale, rounding, around).tolist()}
        for name, scale, rounding, around in (
            ("a", 1, "f64", 0),
            ("LSTM.W_i", 0.3, "f32", 0),
            ("x", 1, "bf16", 3),
            ("h", 7, "f16", 0.1),
        )
    ]
    (FOLDER / "deterministic.json").write_text(json.dumps(streams) + "\n")
    summary = summarise(deterministic.values("summary", (1000,), 3, "f64")).tolist()
    (FOLDER / "summary.json").write_text(json.dumps({"count": 1000, "summary": summary}) + "\n")


def main():
    torch.set_grad_enabled(False)
    write_twin_values()
    for cell in cells.CELLS + cells_networks.CELLS + cells_gated.CELLS + cells_scan.CELLS:
        if sys.argv[1:] and cell.__name__ not in sys.argv[1:]:
            continue
        tensors, metadata = goldens_of(cell, grid_of(cell))
        save_file(tensors, FOLDER / f"{cell.__name__}.safetensors", metadata)
        print(f"{cell.__name__}: {len(tensors)} tensors", flush=True)
        if gradients := gradients_of(cell):
            save_file(gradients[0], GRADIENTS / f"{cell.__name__}.safetensors", gradients[1])
        else:
            print(f"{cell.__name__}: no gradients", flush=True)


if __name__ == "__main__":
    main()
