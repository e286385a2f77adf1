"""The step of a cell as PyTorch operations: for second derivatives, `torch.func`, other devices.

    cell = rnnc.torch.Cell("examples/cells/lstm.rnn", I=80, H=512)
    y, states = reference(cell)(x)          # as cell(x), but slower
"""

import torch

from rnnc.torch.cell import Cell
from rnnc.torch.eager import run_source
from rnnc.torch.layers import Layers


def reference(cell):
    """A module that computes what a `Cell` does, with its Parameters, and is called as it is."""
    if not isinstance(cell, Cell):
        name = type(cell).__name__
        hint = f"; torch.nn.{name} is its reference" if isinstance(cell, Layers) else ""
        raise TypeError(f"reference takes an rnnc.torch.Cell, not {name}{hint}")
    return Reference(cell)


class Reference(Cell):
    """Made by `reference`."""

    def __init__(self, cell):
        torch.nn.Module.__init__(self)
        # The same dicts, so that what replaces a Parameter of one is that of the other, too.
        self._parameters, self._modules = cell._parameters, cell._modules
        self.source, self.batch_first, self.init = cell.source, cell.batch_first, cell.init

    def forward(self, *inputs, states=None, lengths=None, reset=None):
        if self.batch_first:
            inputs = [x.transpose(0, 1) for x in inputs]
        source = self.source
        outputs, finals = run_source(source, inputs, self.params(), states, lengths, reset)
        if self.batch_first:
            outputs = [y.transpose(0, 1) for y in outputs]
        return source.results([*outputs, *finals])
