"""Arrays of an ONNX graph as values of a network.

Constants are NumPy arrays; in arrays of objects "T" and "B" stand for the numbers of steps and of
sequences, "TB" for both in one axis, steps outermost. All else is a `Value` or, of states before the first step and after the last, `States`.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import numpy

from rnnc.convert.problems import Unsupported

STEPS = ("T", "B", "TB", "BT")  # axes of which a step of a sequence has none; two may be one
MOST_AXES = 16  # of a reshape, which tries what fits


def features(axes):
    """The sizes of those axes that one step of one sequence has."""
    return tuple(a for a in axes if a not in STEPS)


@dataclass(frozen=True)
class Value:
    """A vector, or a scalar, at each step of each sequence.

    `axes` are those of the ONNX array, from the outermost in: of STEPS, or the size of one of features,
    which lie in the vector as in memory. A value at the last step alone (`last`) has no "T".
    """

    text: str
    axes: tuple
    vector: bool = True
    last: bool = False

    @property
    def size(self):
        return prod(features(self.axes))

    def as_scalar(self):
        return f"{self.text}[0]" if self.vector else self.text

    def as_vector(self):
        return self.text if self.vector else f"[{self.text}]"

    def viewed(self, axes):
        return replace(self, axes=tuple(axes))


@dataclass(frozen=True)
class Piece:
    """A state of one layer after its last step (`source` is its name), or part of a graph's input."""

    source: str
    text: str  # a layer's: what the state is at each step, in the network; empty for an input
    is_reversed: bool
    index: int
    size: int


@dataclass(frozen=True)
class States:
    """States of sequences, side by side in their features' order; axes as of a Value, without "T"."""

    pieces: tuple
    axes: tuple

    def viewed(self, axes):
        return replace(self, axes=tuple(axes))


def transposed(value, order):
    """Features stay in their order: they would have to move in the vector."""
    axes = [value.axes[i] for i in order]
    moved = [i for i in order if value.axes[i] not in (*STEPS, 1)]
    if moved != sorted(moved):
        raise Unsupported("exchanges axes of features")
    return value.viewed(axes)


def reshaped(value, shape, sizes):
    """`shape` may hold "T", "B", -1; `sizes` are the numbers of steps and sequences where the model
    fixes them."""
    if max(len(value.axes), len(shape)) > MOST_AXES:
        raise Unsupported(f"reshapes an array of more than {MOST_AXES} axes")
    axes = _match(value.axes, tuple(shape), tuple(sizes.items()))
    if axes is None:
        raise Unsupported(
            f"reshapes {axes_text(value.axes)} to {axes_text(shape)}, which mixes steps, sequences and features"
        )
    return value.viewed(axes)


@lru_cache(maxsize=4096)  # without which many axes of size 1 would take forever
def _match(axes, shape, sizes):
    """The axes that `shape` is of an array of these, or None."""
    if not axes:
        return [1] * len(shape) if all(s in (1, -1) for s in shape) else None
    if shape and axes[0] in STEPS and _is_size(shape[0], axes[0], sizes):
        rest = _match(axes[1:], shape[1:], sizes)
        if rest is not None:
            return [axes[0], *rest]
    for taken, given, made in _merges(axes, shape, sizes):
        rest = _match(axes[taken:], shape[given:], sizes)
        if rest is not None:
            return [*made, *rest]
    if shape and shape[0] == 1:
        rest = _match(axes, shape[1:], sizes)
        if rest is not None:
            return [1, *rest]
    for taken in range(1, len(axes) + 1):
        if axes[taken - 1] in STEPS:
            break
        found = _match_features(axes, taken, shape, sizes)
        if found is not None:
            return found
    return None


def _is_size(size, axis, sizes):
    return size in (axis, -1, dict(sizes).get(axis))


def _merges(axes, shape, sizes):
    """Axes of steps and of sequences become one, or are two again: how many of each, and the axes made."""
    both = "".join(map(str, axes[:2]))  # "TB"
    if shape and axes[0] in ("T", "B") and both in STEPS and _is_size(shape[0], both, sizes):
        yield 2, 1, [both]
    if axes[0] in ("TB", "BT") and len(shape) > 1:
        if all(_is_size(size, axis, sizes) for size, axis in zip(shape, axes[0])):
            yield 1, 2, [*axes[0]]


def _match_features(axes, taken, shape, sizes):
    size = prod(axes[:taken])
    for given in range(len(shape) + 1):
        part = list(shape[:given])
        if any(s in STEPS for s in part):
            break
        known = prod(s for s in part if s != -1)
        if part.count(-1) == 1 and known > 0 and size % known == 0:
            part[part.index(-1)] = size // known
        if prod(part) == size and -1 not in part:
            rest = _match(axes[taken:], shape[given:], sizes)
            if rest is not None:
                return part + rest
    return None


def sliced(body, hint, value, axis, start, stop):
    """Elements of an axis of features, the outermost that is longer than 1."""
    count = value.axes[axis]
    axes = (*value.axes[:axis], stop - start, *value.axes[axis + 1 :])
    if (start, stop) == (0, count):
        return value
    if count in STEPS:
        raise Unsupported("takes some of the steps or sequences")
    if any(size != 1 for size in features(value.axes[:axis])):
        raise Unsupported("takes parts of an inner axis of features")
    inner = prod(features(value.axes[axis + 1 :]))
    if isinstance(value, States):
        pieces = _cut(value.pieces, start * inner, stop * inner)
        if pieces is not None:
            return States(pieces, axes)
        value = computed(body, value)
    text = body.let(hint, f"{value.as_vector()}[{start * inner}:{stop * inner}]")
    return replace(value, text=text, axes=axes, vector=True)


def _cut(pieces, start, stop):
    """Whole pieces from one element to another, if there are such."""
    ends = numpy.cumsum([0, *(piece.size for piece in pieces)]).tolist()
    if start in ends and stop in ends:
        return pieces[ends.index(start) : ends.index(stop)]
    return None


def concatenated(body, hint, values, axis):
    like = next(v for v in values if not isinstance(v, numpy.ndarray))
    axis %= len(like.axes)
    rest = _without(like.axes, axis)
    if like.axes[axis] in STEPS:
        raise Unsupported("joins steps or sequences")
    sizes = [v.shape[axis] if isinstance(v, numpy.ndarray) else v.axes[axis] for v in values]
    axes = (*like.axes[:axis], sum(sizes), *like.axes[axis + 1 :])
    if all(isinstance(v, States) and _without(v.axes, axis) == rest for v in values):
        return States(tuple(piece for v in values for piece in v.pieces), axes)
    if any(size != 1 for size in features(like.axes[:axis])):
        raise Unsupported("joins along an inner axis of features")
    texts, lasts = [], set()
    for value in values:
        if isinstance(value, numpy.ndarray):
            vector = constant_features(value, (*like.axes[:axis], value.shape[axis], *like.axes[axis + 1 :]))
            texts.append(body.param(hint, vector))
            continue
        value = computed(body, value)
        lasts.add(value.last)
        if _without(value.axes, axis) != rest:
            raise Unsupported(f"joins {axes_text(value.axes)} and {axes_text(like.axes)}")
        texts.append(value.as_vector())
    if len(lasts) > 1:
        raise Unsupported("joins values of every step and of the last")
    return Value(body.let(hint, f"concat({', '.join(texts)})"), axes, last=lasts.pop())


def _without(axes, axis):
    return axes[:axis] + axes[axis + 1 :]


def constant_features(array, axes):
    """A constant as one vector for a value of these axes, along which it is the same at every step."""
    array = array.reshape((1,) * (len(axes) - array.ndim) + array.shape)
    if any(size != 1 for size, axis in zip(array.shape, axes) if axis in STEPS):
        raise Unsupported("has a constant that differs from step to step or among sequences")
    kept = tuple(1 if axis in STEPS else axis for axis in axes)
    try:
        return numpy.broadcast_to(array, kept).reshape(-1)
    except ValueError:
        raise Unsupported(f"has a constant of shape {list(array.shape)} for {axes_text(axes)}") from None


FIRST = """cell NAME[H](x: [H]) -> h {
  state h: [H]
  h[t] = where(step() == 0, x[t], h[t-1])
}"""


def computed(body, value):
    """States as a value at the last step, to compute with."""
    if not isinstance(value, States):
        return value
    texts = []
    for piece in value.pieces:
        if not piece.text:
            raise Unsupported(f"computes with the initial state `{piece.source}`")
        text = piece.text
        if piece.is_reversed:  # a reversed layer ends at step 0: from there on the value is kept
            cell = body.module.cell(
                "First", f"/// The value at a sequence's first step, from there on.\n{FIRST}"
            )
            body.module.call(cell, {})
            text = body.let("first", f"{cell}({text})")
        texts.append(text)
    text = texts[0] if len(texts) == 1 else body.let("last", f"concat({', '.join(texts)})")
    return Value(text, value.axes, last=True)


def axes_text(axes):
    return "[" + ", ".join(map(str, axes)) + "]"
