"""A converted model: text, weights, and how ONNX's arrays become rnnc's and back."""

import json
import os
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy

from rnnc.convert.values import features
from rnnc.program import compile
from rnnc.weights import save_weights


@dataclass(frozen=True)
class Input:
    """One of the model's. `kind` is steps, integers, state, or lengths; `axes` are ONNX's: "T", "B", or
    the size of one of features. `argument` is the network's name; a state has `count` layers' states."""

    name: str
    kind: str
    axes: tuple
    argument: str = ""
    count: int = 1


@dataclass(frozen=True)
class Output:
    """One of the model's. `kind` is steps, last (the last step of each sequence), states, or constant;
    `sources` are the network's output, or the final states side by side."""

    name: str
    kind: str
    axes: tuple = ()
    sources: tuple = ()
    constant: object = None


@dataclass
class Converted:
    """A model as `.rnn` text (`text`, the network `Model`) and `weights`, arrays by name.

    `starts` says of which input, and which of the states in it, a layer's state begins with; `lengths` is
    the name of an input, an array, or None.
    """

    text: str
    weights: dict
    dtype: str
    inputs: list
    outputs: list
    starts: dict = field(default_factory=dict)
    lengths: object = None

    def compile(self, **options):
        """The network as an `rnnc.Program`; options as `rnnc.compile` has them."""
        return compile(self.text, "Model", **{"dtype": self.dtype, **options})

    def run(self, inputs, program=None):
        """What the model gives: arrays by ONNX's names and in its layouts, on the CPU.

        `program` is that of `compile`, to run several times. Steps past a sequence's end are zeros.
        """
        missing = [i.name for i in self.inputs if i.name not in inputs and i.kind != "state"]
        unknown = sorted(set(inputs) - {i.name for i in self.inputs})
        if missing or unknown:
            raise ValueError(f"inputs: missing {missing}, unknown {unknown}")
        program = program or self.compile()
        arrays = {name: numpy.asarray(array) for name, array in inputs.items()}
        lengths = arrays[self.lengths] if isinstance(self.lengths, str) else self.lengths
        parts = {
            i.name: _states(arrays[i.name], i) for i in self.inputs if i.kind == "state" and i.name in arrays
        }
        result = program.run(
            {i.argument: _steps(arrays[i.name], i) for i in self.inputs if i.argument},
            self.weights,
            initial_states={
                s: parts[name][index] for s, (name, index) in self.starts.items() if name in parts
            },
            lengths=None if lengths is None else numpy.asarray(lengths, dtype=numpy.int32),
        )
        return {output.name: _result(output, result, lengths) for output in self.outputs}

    def interface(self):
        """How the model's arrays become the network's and back, as JSON has it."""
        lengths = self.lengths.tolist() if isinstance(self.lengths, numpy.ndarray) else self.lengths
        return {
            "network": "Model",
            "dtype": self.dtype,
            "inputs": [
                {"name": i.name, "kind": i.kind, "axes": list(i.axes), "argument": i.argument}
                for i in self.inputs
            ],
            "outputs": [
                {"name": o.name, "kind": o.kind, "axes": list(o.axes), "sources": list(o.sources)}
                for o in self.outputs
            ],
            "initial_states": {s: {"input": n, "index": i} for s, (n, i) in self.starts.items()},
            "lengths": None if lengths is None else lengths if isinstance(lengths, list) else str(lengths),
        }

    def save(self, folder):
        """Writes model.rnn, weights.npz, and model.json, the interface."""
        folder = Path(os.fspath(folder))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.rnn").write_text(self.text, encoding="utf-8")
        save_weights(folder / "weights.npz", self.weights)
        (folder / "model.json").write_text(json.dumps(self.interface(), indent=1) + "\n")


def _steps(array, info):
    """[T, B, size] of an input's array, or [T, B] of integers."""
    if array.ndim != len(info.axes):
        raise ValueError(f"input {info.name!r} has {array.ndim} axes, expected {list(info.axes)}")
    leading = [info.axes.index(axis) for axis in ("T", "B") if axis in info.axes]
    rest = [i for i in range(array.ndim) if i not in leading]
    array = array.transpose(leading + rest)
    if "B" not in info.axes:
        array = array[:, None]
    if info.kind == "integers":
        return array
    if array.shape[2:] != features(info.axes):
        raise ValueError(f"input {info.name!r} has shape {list(array.shape)}, expected {list(info.axes)}")
    return array.reshape(*array.shape[:2], prod(array.shape[2:]))


def _states(array, info):
    """The [B, size] of each state that an input has side by side."""
    if array.ndim != len(info.axes):
        raise ValueError(f"input {info.name!r} has {array.ndim} axes, expected {list(info.axes)}")
    array = numpy.moveaxis(array, info.axes.index("B"), 0) if "B" in info.axes else array[None]
    return numpy.split(array.reshape(array.shape[0], -1), info.count, axis=1)


def _result(output, result, lengths):
    if output.kind == "constant":
        return output.constant
    if output.kind == "states":
        array = numpy.concatenate([result.final_states[name] for name in output.sources], axis=1)[None]
    else:
        array = result.outputs[output.sources[0]]
        array = array.reshape(*array.shape[:2], -1)
        if output.kind == "last":
            ends = numpy.full(array.shape[1], array.shape[0]) if lengths is None else numpy.asarray(lengths)
            array = array[numpy.maximum(ends, 1) - 1, numpy.arange(array.shape[1])][None]
    # Now [T or 1, B, size]: to the axes of the model.
    leading = [axis for axis in ("T", "B") if axis in output.axes]
    array = array.reshape([*array.shape[:2], *features(output.axes)])
    array = array if "B" in leading else array[:, 0]
    array = array if "T" in leading else array[0]
    rest = iter(range(len(leading), len(output.axes)))
    return array.transpose([leading.index(a) if a in leading else next(rest) for a in output.axes])
