"""Packed sequences as padded ones, and back: each way one copy, by rows that are found once."""

import functools

import torch
from torch.nn.utils.rnn import PackedSequence

from rnnc.torch.calls import is_compiling, modes, transform


def padded(packed):
    """[T, B, ...] in the order that the sequences had before they were packed, zeros past their ends;
    their lengths [B]; and where the rows that are packed lie in [T * B, ...]."""
    data, sizes, order, places = packed
    # Tensors of a mode or transform are its own.
    is_plain = not is_compiling() and modes() == 0 and transform() is None
    find = _found if is_plain else _found.__wrapped__
    steps, batch, lengths, rows = find(sizes, order, places, data.device)
    shape = data.shape[1:]
    x = data.new_zeros((steps * batch, *shape)).index_copy_(0, rows, data)
    return x.view(steps, batch, *shape), lengths, rows


def packed_like(y, rows, packed):
    """The rows of a [T, B, ...] as a PackedSequence of the same sequences."""
    data = y.flatten(0, 1).index_select(0, rows)
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)


@functools.lru_cache(maxsize=16)
@torch.inference_mode(False)  # what is kept serves calls with gradients, too
def _found(sizes, order, places, device):
    """Steps, sequences, their lengths, and the rows of a packing. The next layer has the same one."""
    steps, batch = sizes.numel(), int(sizes[0])
    is_there = torch.arange(batch) < sizes[:, None]  # [T, B]: the longest sequence first
    lengths = is_there.sum(0, dtype=torch.int32).to(device)
    step, sequence = (found.to(device) for found in is_there.nonzero(as_tuple=True))
    if order is not None:
        lengths, sequence = lengths.index_select(0, places), order.index_select(0, sequence)
    return steps, batch, lengths, sequence + step * batch
