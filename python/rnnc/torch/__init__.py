"""Cells as PyTorch modules, with gradients.

    import torch, rnnc.torch
    cell = rnnc.torch.Cell("examples/cells/lstm.rnn", I=80, H=512)
    y, states = cell(x)                     # x: [T, B, 80]
    y.sum().backward()

`LSTM`, `GRU` and `RNN` are PyTorch's modules computed by rnnc; `replace` makes those of a model so.
Calls go straight to the library, with memory of PyTorch's: on a GPU on the current stream.
"""

from rnnc.torch.calls import ReferenceWarning
from rnnc.torch.cell import Cell
from rnnc.torch.frozen import frozen
from rnnc.torch.layers import GRU, LSTM, RNN, replace
from rnnc.torch.on_gpus import spare_multiprocessors, tune
from rnnc.torch.ranks import check_ranks, data_parallel, rank_device
from rnnc.torch.reference import reference
from rnnc.torch.stream import Stream

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Cell",
    "ReferenceWarning",
    "Stream",
    "check_ranks",
    "data_parallel",
    "frozen",
    "rank_device",
    "reference",
    "replace",
    "spare_multiprocessors",
    "tune",
]
