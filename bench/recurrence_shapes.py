"""The shapes that bench/recurrences.py measures, what each is to reach, and figures of others.

Times are microseconds per step, of a forward pass, or of training: forward and backward with every
gradient. `recorded` ones were measured on an H200 in other runs: by cuDNN 9.19 called directly (the
best of its algorithms), FlashRNN 1.0.5 (fused), torch.compile of the step replayed as a CUDA graph,
and JAX's `lax.scan` under `jit`.
"""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
STEPS = 512
DTYPES = ("f16", "bf16", "tf32", "f32")  # tf32: f32 whose products may round to TF32


class Case(NamedTuple):
    """Layers of a cell of examples/cells, the input as wide as the hidden state. With `heads`, a
    cell of bench/cells instead, its input products done, its weights in so many blocks."""

    cell: str
    batch: int
    hidden: int
    dtype: str
    layers: int = 1
    steps: int = STEPS
    heads: int = 0

    def __str__(self):
        text = f"{self.cell} {self.layers}x{self.batch}x{self.hidden} {self.dtype}"
        if self.heads:
            text += f" {self.heads} head{'s' if self.heads > 1 else ''}"
        return text if self.steps == STEPS else f"{text} T {self.steps}"

    @property
    def source(self):
        """What `rnnc` is to run, and its dims."""
        hidden = {"H": self.hidden}
        if self.heads:
            cell = {"lstm": "LSTMRecurrence", "slstm": "sLSTMRecurrence"}[self.cell]
            file = ROOT / "bench/cells/from_preactivations.rnn"
            return [file, "--cell", cell], hidden | {"N": self.heads}
        if self.layers > 1:
            file = ROOT / f"examples/networks/stacked_{self.cell}.rnn"
            return [file], hidden | {"F": self.hidden, "L": self.layers}
        return [ROOT / f"examples/cells/{self.cell}.rnn"], hidden | {"I": self.hidden}

    @property
    def options(self):
        """Of `rnnc bench` and `rnnc explain`."""
        dtype = {"dtype": "f32", "tf32": True} if self.dtype == "tf32" else {"dtype": self.dtype}
        return {"device": "cuda", "batch": self.batch, "steps": self.steps} | dtype

    @property
    def cudnn(self):
        """The argument of `cudnn_rnn`; None for what cuDNN has not."""
        if self.cell not in ("lstm", "gru") or self.heads:
            return None
        sizes = (self.layers, self.hidden, self.batch, self.steps)
        return ":".join(map(str, (self.cell.upper(), *sizes, self.dtype)))


class Goal(NamedTuple):
    case: Case
    reach: float
    recorded: float
    by: str = "cuDNN"


TABLE = [
    Goal(Case("lstm", 16, 256, "f16"), 0.85, 1.29),
    Goal(Case("lstm", 16, 256, "bf16"), 0.85, 4.87),
    Goal(Case("lstm", 16, 512, "f16"), 1.1, 1.68),
    Goal(Case("lstm", 16, 512, "bf16"), 1.1, 5.76),
    Goal(Case("lstm", 16, 1024, "f16"), 1.45, 2.07),
    Goal(Case("lstm", 16, 1024, "bf16"), 1.45, 7.01),
    Goal(Case("lstm", 64, 1024, "f16"), 3.6, 7.87),
    Goal(Case("lstm", 64, 1024, "bf16"), 3.6, 8.06),
    Goal(Case("lstm", 16, 2048, "bf16"), 5, 10.7),
    Goal(Case("gru", 16, 1024, "bf16"), 1.4, 6.83),
    Goal(Case("lstm", 16, 512, "bf16", layers=4), 2.0, 9.83),
    Goal(Case("lstm", 1, 512, "bf16", layers=8), 1.5, 15.2),
    Goal(Case("lstm", 1, 256, "f32"), 0.75, 0.84),
    Goal(Case("lstm", 1, 1024, "f32"), 1.3, 1.57),
    Goal(Case("lstm", 16, 1024, "f32"), 6, 16.9),
    Goal(Case("lstm", 16, 1024, "tf32"), 3, 11.3),
    Goal(Case("lstm", 16, 768, "bf16", heads=12), 0.4, 3.0, "FlashRNN"),
    Goal(Case("slstm", 16, 768, "bf16", heads=12), 0.4, 3.0, "FlashRNN"),
    Goal(Case("lstm", 16, 768, "bf16", heads=1), 1.2, 5.0, "FlashRNN"),
]

# Cells that nobody wrote by hand, and the LSTM whose time per phase they are held against.
REFERENCE = Case("lstm", 16, 1024, "bf16")
CELLS = [REFERENCE] + [
    REFERENCE._replace(cell=cell)
    for cell in ("layernorm_lstm", "gru_reset_before", "peephole_lstm", "mgu", "lem", "nbrc")
]
COMPILE_RATIO = 3  # at least, of torch.compile's time to theirs
COMPILED_STEP = {"lstm": 6.3, "layernorm_lstm": 9.5, "gru_reset_before": 11.7}  # recorded, T 256

BACKWARD_TABLE = [
    Goal(Case("lstm", 16, 256, "f16"), 2.0, 5.27),
    Goal(Case("lstm", 16, 256, "bf16"), 2.0, 11.3),
    Goal(Case("lstm", 16, 512, "f16"), 2.5, 5.45),
    Goal(Case("lstm", 16, 512, "bf16"), 2.5, 14.2),
    Goal(Case("lstm", 16, 1024, "f16"), 3.9, 7.5),
    Goal(Case("lstm", 16, 1024, "bf16"), 3.9, 16.8),
    Goal(Case("lstm", 64, 1024, "f16"), 9.2, 20.6),
    Goal(Case("lstm", 64, 1024, "bf16"), 9.2, 20.4),
    Goal(Case("lstm", 128, 1024, "bf16"), 19, 25.7),
    Goal(Case("lstm", 16, 2048, "bf16"), 9.8, 24.8),
    Goal(Case("gru", 16, 1024, "bf16"), 3.2, 16.5),
    Goal(Case("lstm", 16, 512, "bf16", layers=4), 5.0, 21.5),
    Goal(Case("lstm", 1, 512, "bf16", layers=8), 5.0, 34.3),
    Goal(Case("lstm", 1, 256, "f32"), 1.7, 2.79),
    Goal(Case("lstm", 1, 1024, "f32"), 3.6, 6.0),
    Goal(Case("lstm", 16, 1024, "f32"), 13.5, 41.4),
    Goal(Case("lstm", 16, 1024, "tf32"), 6.6, 32.7),
    Goal(Case("lstm", 16, 768, "bf16", heads=12), 1.3, 7.9, "FlashRNN"),
    Goal(Case("slstm", 16, 768, "bf16", heads=12), 1.3, 7.9, "FlashRNN"),
    Goal(Case("lstm", 16, 768, "bf16", heads=1), 3.1, 13.1, "FlashRNN"),
    Goal(Case("layernorm_lstm", 16, 1024, "bf16"), 10, 74.5, "JAX"),
    Goal(Case("gru_reset_before", 16, 1024, "bf16"), 6, 51.1, "JAX"),
]


class Figures(NamedTuple):
    """What a direction is to reach."""

    table: list
    cells: list
    phase_ratio: float  # at most, of the cells' time per phase to the LSTM's
    list_ratios: dict  # by dtype: the geometric mean over the list of cuDNN's time to ours


FORWARD = Figures(TABLE, CELLS, 1.7, {"f16": 1.4, "bf16": 3.5, "tf32": 2.0, "f32": 2.0})
BACKWARD = Figures(BACKWARD_TABLE, CELLS, 1.4, {"f16": 2.0, "bf16": 4.0, "tf32": 3.0, "f32": 3.0})
WORST_RATIO = 0.95
COLD_SECONDS = 1.5  # that any of these may take to compile

SWEEPS = {
    "hidden": [REFERENCE._replace(hidden=h) for h in (128, 256, 512, 768, 1024, 1536, 2048)],
    "batch": [REFERENCE._replace(batch=b) for b in (1, 4, 16, 32, 64, 128)],
    "steps": [REFERENCE._replace(steps=t) for t in (64, 128, 256, 512, 1024, 2048)],
}


def read_list():
    lines = (ROOT / "bench/recurrences_list.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")][1:]
    return [Case(cell, int(batch), int(hidden), dtype) for cell, batch, hidden, dtype in rows]


def parts(figures=FORWARD):
    """By name: what can be measured by itself. A case may be in several."""
    return {
        "table": [goal.case for goal in figures.table],
        "cells": figures.cells,
        "list": read_list(),
        "sweep": list(dict.fromkeys(case for cases in SWEEPS.values() for case in cases)),
    }
