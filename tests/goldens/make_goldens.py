"""Makes the goldens: what the shipped cells give in float64, for a grid of sizes and roundings.

    python3 tests/goldens/make_goldens.py [CELL…]      # needs torch, numpy, safetensors; a minute

Inputs, params and initial states are not stored: Python and C++ make the same (deterministic.py).
Of each output and final state 64 values are kept, at places that its size decides, and one random
projection of the whole. tests/support/golden_cases.h has the twin of this grid.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

import deterministic
from cells import CELLS

FOLDER = Path(__file__).resolve().parent
STEPS = (1, 7, 33)
BATCHES = (1, 3, 16)
SIZES = ((1, 3), (7, 1), (64, 33), (300, 7))  # hidden size, input size
SAMPLES = 64


class Data:
    """The arrays of one case. Params and inputs are rounded to its type, states to float32."""

    def __init__(self, cell, steps, batch, hidden, inputs, rounding, given_states):
        self.cell, self.batch, self.hidden, self.inputs = cell, batch, hidden, inputs
        self.rounding, self.given_states = rounding, given_states
        self.params = {}
        self.x = deterministic.values(f"{cell}.x", (steps, batch, inputs), 1, rounding)

    def param(self, name, *shape):
        if name not in self.params:
            scale = 1 / math.sqrt(shape[-1]) if len(shape) >= 2 else 0.5
            self.params[name] = deterministic.values(
                f"{self.cell}.{name}", shape, scale, self.rounding
            )
        assert self.params[name].shape == shape
        return self.params[name]

    def state(self, name, size):
        shape = (self.batch, size)
        if not self.given_states:
            return torch.zeros(shape, dtype=torch.float64)
        return deterministic.values(f"{self.cell}.{name}", shape, 1, "f32")


def summarise(tensor):
    """Samples of the tensor, then its projection."""
    flat = tensor.detach().numpy().ravel()
    n = len(flat)
    places = np.arange(n) if n <= SAMPLES else deterministic.bits("places", SAMPLES) % np.uint64(n)
    weights = deterministic.values("projection", (n,), 1, "f64").numpy()
    return np.append(flat[places.astype(np.int64)], np.sum(weights * flat) / math.sqrt(n))


def goldens_of(cell):
    tensors = {}
    for h, (hidden, inputs) in enumerate(SIZES):
        for b, batch in enumerate(BATCHES):
            for t, steps in enumerate(STEPS):
                for rounding in ("f32", "bf16", "f16"):
                    given = (h + b + t) % 2 == 1
                    data = Data(cell.__name__, steps, batch, hidden, inputs, rounding, given)
                    outputs, finals = cell(data)
                    case = f"T{steps}_B{batch}_H{hidden}_{rounding}"
                    tensors |= {f"{case}/{name}": summarise(y) for name, y in outputs.items()}
                    tensors |= {f"{case}/final.{name}": summarise(s) for name, s in finals.items()}
    return tensors


def write_twin_values():
    """What the test of the C++ twin compares with."""
    streams = [
        {"name": name, "scale": scale, "rounding": rounding}
        | {"values": deterministic.values(name, (40,), scale, rounding).tolist()}
        for name, scale, rounding in (
            ("a", 1, "f64"),
            ("LSTM.W_i", 0.3, "f32"),
            ("x", 1, "bf16"),
            ("h", 7, "f16"),
        )
    ]
    (FOLDER / "deterministic.json").write_text(json.dumps(streams) + "\n")
    summary = summarise(deterministic.values("summary", (1000,), 3, "f64")).tolist()
    (FOLDER / "summary.json").write_text(json.dumps({"count": 1000, "summary": summary}) + "\n")


def main():
    torch.set_grad_enabled(False)
    write_twin_values()
    for cell in CELLS:
        if sys.argv[1:] and cell.__name__ not in sys.argv[1:]:
            continue
        tensors = goldens_of(cell)
        save_file(tensors, FOLDER / f"{cell.__name__}.safetensors")
        print(f"{cell.__name__}: {len(tensors)} tensors", flush=True)


if __name__ == "__main__":
    main()
