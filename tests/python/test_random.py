"""Calls that hypothesis draws, beside the reference: shapes, strides, lengths, resets, states, gradients."""

import unittest
from pathlib import Path

try:
    import torch
    from hypothesis import given, settings
    from hypothesis import strategies as st
except ImportError as error:
    raise unittest.SkipTest("PyTorch or hypothesis is not installed") from error

import rnnc.torch

CELLS = Path(__file__).resolve().parents[2] / "examples"
SIZES = (1, 2, 3, 7, 8, 33)
SOURCES = {
    "cells/lstm.rnn": {"I": 3, "H": 5},
    "cells/gru_reset_before.rnn": {"I": 1, "H": 7},
    "cells/layernorm_lstm.rnn": {"I": 4, "H": 3},
    "cells/slstm.rnn": {"I": 4, "H": 8, "N": 2},
    "cells/qrnn.rnn": {"I": 3, "H": 4},
    "networks/bidirectional_gru.rnn": {"F": 2, "H": 3},
}
LIMITS = {torch.float64: 1e-9, torch.float32: 1e-4}
cells = {}


def cell_of(name, dtype):
    if (name, dtype) not in cells:
        torch.manual_seed(1)
        cell = rnnc.torch.Cell(CELLS / name, dtype=dtype, **SOURCES[name])
        with torch.no_grad():
            for parameter in cell.parameters():
                parameter.normal_(0, 0.5)
        cells[name, dtype] = cell
    return cells[name, dtype]


@st.composite
def strided(draw, shape, dtype, seed):
    """A tensor of a shape whose memory is larger, or in another order."""
    generator = torch.Generator().manual_seed(seed)
    order = draw(st.permutations(range(len(shape))))
    every = draw(st.sampled_from((1, 2)))
    memory = torch.randn(*(every * shape[axis] for axis in order), dtype=dtype, generator=generator)
    tensor = memory.permute(*(order.index(axis) for axis in range(len(shape))))
    return tensor[tuple(slice(None, None, every) for _ in shape)]


@st.composite
def calls(draw):
    name, dtype = draw(st.sampled_from(sorted(SOURCES))), draw(st.sampled_from(list(LIMITS)))
    cell = cell_of(name, dtype)
    steps, batch = draw(st.sampled_from(SIZES)), draw(st.sampled_from(SIZES))
    seed = draw(st.integers(0, 1000))
    inputs = [
        draw(strided((steps, batch, *info.shape), dtype, seed)) for info in cell.source.inputs
    ]
    states = {
        info.name: draw(strided((batch, *info.shape), dtype, seed + 1))
        for info in cell.source.states
        if draw(st.booleans())
    }
    more = {}
    if draw(st.booleans()):
        lengths = st.lists(st.integers(0, steps), min_size=batch, max_size=batch)
        more["lengths"] = torch.tensor(draw(lengths))
    if draw(st.booleans()):
        generator = torch.Generator().manual_seed(seed)
        more["reset"] = torch.rand(steps, batch, generator=generator) < 0.2
    wanted = draw(st.lists(st.booleans(), min_size=40, max_size=40))
    return cell, inputs, states, more, wanted, LIMITS[dtype]


def flat(results):
    if isinstance(results, torch.Tensor):
        return [results]
    return [tensor for part in results for tensor in flat(part)]


class Random(unittest.TestCase):
    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(calls())
    def test_as_the_reference(self, call):
        cell, inputs, states, more, wanted, limit = call
        leaves = [*inputs, *states.values()]
        parameters = list(cell.parameters())
        found = []
        for module in (cell, rnnc.torch.reference(cell)):
            flags = iter(wanted)
            given_now = [t.detach().requires_grad_(next(flags)) for t in leaves]
            for parameter in parameters:
                parameter.requires_grad_(next(flags, True))
            count = len(inputs)
            begin = dict(zip(states, given_now[count:]))
            results = flat(module(*given_now[:count], states=begin, **more))
            by = [t for t in (*given_now, *parameters) if t.requires_grad]
            gradients = []
            if by:
                generator = torch.Generator().manual_seed(3)
                loss = sum(
                    (r * torch.randn(r.shape, dtype=r.dtype, generator=generator)).sum()
                    for r in results
                )
                gradients = torch.autograd.grad(
                    loss, by, allow_unused=True, materialize_grads=True
                )
            found.append([*results, *gradients])
        for ours, theirs in zip(*found):
            scale = max(1.0, float(theirs.detach().abs().max()) if theirs.numel() else 0)
            worst = float((ours - theirs).detach().abs().max()) if theirs.numel() else 0
            self.assertLessEqual(worst / scale, limit)


if __name__ == "__main__":
    unittest.main()
