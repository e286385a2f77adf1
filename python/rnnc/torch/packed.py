"""Packed sequences as padded ones, and back: each way one copy, by rows that are found once."""

import functools
from typing import NamedTuple, Optional

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.nn.utils.rnn import PackedSequence

from rnnc.torch.calls import is_compiling, is_grad_enabled, modes, transform

_new = tuple.__new__


def _view(tensor, size, strides, offset):
    return tensor.view(size)


# Of contiguous tensors; by what Inductor's graphs make views by, where this PyTorch has it, in a third of
# the time of Tensor.view. It has no gradient, and its offset counts from the tensor's own.
_viewed = getattr(torch._C._dynamo.guards, "_reinterpret_tensor", _view)


class Packing(NamedTuple):
    """How sequences are packed, whatever is in them."""

    steps: int
    batch: int
    lengths: torch.Tensor  # [B], in the order that the sequences had before they were packed
    rows: Optional[torch.Tensor]  # where the packed rows lie in [T * B, ...]; None: as they are
    places: Optional[torch.Tensor]  # [T * B]: which of the packed rows is there, past a sequence's end
    # its first, which no call looks at; None: of a mode's or transform's tensors


def padded(packed):
    """[T, B, ...] in the order that the sequences had before they were packed, and the Packing."""
    data, sizes, order, before = packed
    if data.dim() != 2:
        raise ValueError(f"packed rows have shape {list(data.shape)}, expected [rows, values of input]")
    if is_compiling() or modes() > 0 or transform() is not None or forward_ad._current_level >= 0:
        steps, batch, lengths, rows, _ = packing = _traced(sizes, order, before, data.device)
        zeros = data.new_zeros((steps * batch, data.shape[1]))
        return zeros.index_copy_(0, rows, data).view(steps, batch, -1), packing
    packing = _known(sizes, order, before, data.device)
    if packing.rows is None:
        return data.view(packing.steps, packing.batch, -1), packing
    if data.requires_grad and is_grad_enabled():
        return _pad(packing, data), packing
    return _gathered(packing, data), packing


def packed_like(y, packing, packed):
    """The rows of a [T, B, ...] as a PackedSequence of the same sequences."""
    _, sizes, order, before = packed
    if packing.rows is None or packing.places is None:
        y = y.flatten(0, 1)
        data = y if packing.rows is None else y.index_select(0, packing.rows)
        return PackedSequence(data, sizes, order, before)
    data = _pack(packing, y) if y.requires_grad and is_grad_enabled() else _selected(packing, y)
    return _new(PackedSequence, (data, sizes, order, before))  # which was checked when it was packed


def _gathered(packing, data):
    """[T, B, ...] of packed rows. Zeros, into which they were copied, would take twice the time."""
    steps, batch, _, _, places = packing
    size = data.shape[1]
    return _viewed(data.index_select(0, places), (steps, batch, size), (batch * size, size, 1), 0)


def _selected(packing, y):
    """The packed rows of a [T, B, ...]."""
    steps, batch, size = y.shape
    y = y.contiguous()
    flat = _viewed(y, (steps * batch, size), (size, 1), 0)
    return flat.index_select(0, packing.rows)


class _Pad(torch.autograd.Function):
    """Past a sequence's end gradients are zero, whatever row is there."""

    @staticmethod
    def forward(ctx, packing, data):
        ctx.packing = packing
        return _gathered(packing, data)

    @staticmethod
    def backward(ctx, gradient):
        return None, (_pack if is_grad_enabled() else _selected)(ctx.packing, gradient)


class _Pack(torch.autograd.Function):
    """Past a sequence's end no call looks at gradients."""

    @staticmethod
    def forward(ctx, packing, y):
        ctx.packing = packing
        return _selected(packing, y)

    @staticmethod
    def backward(ctx, gradient):
        return None, (_pad if is_grad_enabled() else _gathered)(ctx.packing, gradient)


# Without what Function.apply does for transforms of torch.func: there are none here.
_pad = super(torch.autograd.Function, _Pad).apply
_pack = super(torch.autograd.Function, _Pack).apply


@functools.lru_cache(maxsize=16)
@torch.inference_mode(False)  # what is kept serves calls with gradients, too
def _known(sizes, order, before, device):
    """The Packing, once: the next layer has the same one. By NumPy, whose operations on so little take
    half the time of PyTorch's."""
    sizes = sizes.numpy()
    steps, batch = len(sizes), int(sizes[0])
    is_there = np.arange(batch) < sizes[:, None]  # [T, B]: the longest sequence first
    lengths = is_there.sum(0, dtype=np.int32)
    rows, first = is_there.ravel().nonzero()[0], np.arange(batch)
    if order is not None:
        order, first = order.numpy(force=True), before.numpy(force=True)
        sequences = rows % batch
        rows += order[sequences] - sequences
        lengths = lengths[first]
    places = np.tile(first, steps)
    places[rows] = np.arange(len(rows))
    found = [torch.from_numpy(array).to(device) for array in (lengths, rows, places)]
    is_whole = len(rows) == steps * batch and (order is None or batch == 1)
    return Packing(steps, batch, found[0], None if is_whole else found[1], found[2])


def _traced(sizes, order, before, device):
    """The same of any mode's or transform's tensors."""
    steps, batch = sizes.numel(), int(sizes[0])
    is_there = torch.arange(batch) < sizes[:, None]
    lengths = is_there.sum(0, dtype=torch.int32).to(device)
    step, sequence = (found.to(device) for found in is_there.nonzero(as_tuple=True))
    if order is not None:
        lengths, sequence = lengths.index_select(0, before), order.index_select(0, sequence)
    return Packing(steps, batch, lengths, sequence + step * batch, None)
