"""An ONNX model as a whole: what its inputs are, its nodes, its outputs."""

import os
from math import prod

import numpy

from rnnc.convert.problems import ConvertError, Unsupported, printable
from rnnc.convert.result import Converted, Input, Output
from rnnc.convert.text import shape_text
from rnnc.convert.values import Piece, States, Value, axes_text, features

# How axes of the inputs are tried: [T, B, …], [B, T, …], and without an axis of sequences.
ORDERS = (("T", "B"), ("B", "T"), ("T",))
TYPES = {1: numpy.float32, 11: numpy.float64}
INTEGERS = (6, 7)  # int32, int64
RECURRENT = ("LSTM", "GRU", "RNN")
# Through these an input is still the initial state or the lengths that a node reads.
PASSING = ("Identity", "Cast", "Squeeze", "Unsqueeze", "Slice", "Split", "Gather")


def from_onnx(model, constants=None):
    """Converts a model, a path or a `ModelProto`, to a `Converted`.

    `constants` gives values to inputs of the model that are weights, by name. A ConvertError lists every
    node that cannot be expressed, with its reason.
    """
    model = _read(model)
    graph = model.graph
    constants = {name: numpy.asarray(array) for name, array in (constants or {}).items()}
    unknown = sorted(set(constants) - {info.name for info in graph.input})
    if unknown:
        raise ConvertError([f"constant `{name}`: the model has no such input" for name in unknown])
    attempts = []
    for order in ORDERS:
        attempt = _Attempt(model, constants, order)
        converted = attempt.run()
        if converted is not None:
            return converted
        attempts.append(attempt.conversion)
    best = max(attempts, key=lambda conversion: (conversion.done, -len(conversion.problems)))
    raise ConvertError(best.problems)


def _read(model):
    try:
        import onnx
    except ImportError:
        raise ImportError("ONNX models need the package onnx: pip install onnx") from None
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        try:
            model = onnx.load(path)
        except OSError:
            raise
        except Exception as error:
            raise ConvertError([f"{path}: not an ONNX model: {error}"]) from None
    if not model.graph.node:
        raise ConvertError(["the model has no nodes"])
    if not all(isinstance(name, str) for name in _names(model)):
        raise ConvertError(["not a valid ONNX model: a name in it is not UTF-8"])
    return model


def _names(model):
    yield from (model.graph.name, *(opset.domain for opset in model.opset_import))
    for part in (model.graph.input, model.graph.output, model.graph.initializer):
        yield from (item.name for item in part)
    for node in model.graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


class _Attempt:
    """The model with one order of its inputs' axes."""

    def __init__(self, model, constants, order):
        from rnnc.convert.scope import Conversion, Scope

        self.graph, self.constants, self.order = model.graph, constants, order
        opsets = {i.domain if i.domain != "ai.onnx" else "": i.version for i in model.opset_import}
        self.conversion = Conversion(opsets, self._dtype())
        self.scope = Scope(self.conversion)
        self.inputs, self.arguments = [], []  # of the model, and of the network

    def _dtype(self):
        types = {info.type.tensor_type.elem_type for info in self.graph.input}
        types |= {tensor.data_type for tensor in self.graph.initializer}
        return numpy.float64 if 11 in types and 1 not in types else numpy.float32

    def run(self):
        from rnnc.convert.scope import Failed

        env = self.scope.env
        self.scope.read_initializers(self.graph)
        env.update(self.constants)
        roles = _roles(self.graph)
        for info in self.graph.input:
            if info.name not in env:
                env[info.name] = Failed
                try:
                    env[info.name] = self._input(info, roles.get(info.name, ("steps", 0)))
                except Unsupported as problem:
                    self.conversion.problems.append(f"input `{info.name}`: {problem}")
        self.scope.run(self.graph.node)
        outputs, names = [], []
        for info in self.graph.output if not self.conversion.problems else ():
            try:
                outputs.append(self._output(info.name, env.get(info.name), names))
            except Unsupported as problem:
                self.conversion.problems.append(f"output `{info.name}`: {problem}")
        if self.conversion.problems:
            return None
        return self._converted(outputs, names)

    def _converted(self, outputs, names):
        body, module = self.scope.body, self.conversion.module
        if not names:  # a network has an output, also where only final states are wanted
            names = [self._any_output()]
        heading = f"/// {printable(self.graph.name) or 'A model'}, from ONNX."
        text = module.text(heading, self.arguments, names, body)
        lengths = next((given for given in self.conversion.lengths if given is not None), None)
        return Converted(
            text=text,
            weights={**module.params, **body.params},
            dtype={numpy.float32: "f32", numpy.float64: "f64"}[self.conversion.dtype],
            inputs=self.inputs,
            outputs=outputs,
            starts={state: (piece.source, piece.index) for state, piece in self.conversion.starts.items()},
            lengths=lengths,
        )

    def _any_output(self):
        values = [v for v in self.scope.env.values() if isinstance(v, (Value, States))]
        for value in values:
            texts = [value.text] if isinstance(value, Value) else [p.text for p in value.pieces]
            for text in filter(str.isidentifier, texts):
                if text not in dict(self.arguments):
                    return text
        raise ConvertError(["the model has no recurrence, and computes nothing from its inputs"])

    def _input(self, info, role):
        from rnnc.convert.scope import Lengths

        kind, layout = role
        if not info.type.HasField("tensor_type"):
            raise Unsupported("is no tensor")
        type_ = info.type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else None for d in type_.shape.dim]
        if kind == "weights":
            raise Unsupported("is read as weights and has no value: give it one (constants, --constant)")
        if kind == "lengths":
            self.inputs.append(Input(info.name, "lengths", ()))
            return Lengths(info.name)
        if type_.elem_type not in TYPES and type_.elem_type not in INTEGERS:
            raise Unsupported("is neither of float32 or float64 nor of integers")
        if kind == "state":
            return self._initial(info.name, dims, layout)
        order = self.order
        if len(dims) < len(order):
            raise Unsupported(f"has {len(dims)} axes: expected {', '.join(order)} and features")
        axes = (*order, *dims[len(order) :])
        self._sizes(axes, dims)
        name = self.scope.body.fresh(info.name)
        if type_.elem_type in INTEGERS:
            if len(axes) != len(order):
                raise Unsupported("is of integers, and has axes of features")
            self.arguments.append((name, "int []"))
            self.inputs.append(Input(info.name, "integers", axes, name))
            self.conversion.integers.add(name)
            return Value(name, axes, vector=False)
        value = Value(name, axes)
        self.arguments.append((name, shape_text([value.size])))
        self.inputs.append(Input(info.name, "steps", axes, name))
        return value

    def _initial(self, name, dims, layout):
        if "B" not in self.order:
            axes = tuple(dims)
        elif len(dims) == 3 and layout == 0:
            axes = (dims[0], "B", dims[2])
        elif dims:
            axes = ("B", *dims[1:])
        else:
            raise Unsupported("has no axis of sequences")
        self._sizes(axes, dims)
        count = axes[0] if len(dims) == 3 and layout == 0 else axes[1] if len(dims) == 3 else 1
        size = prod(features(axes)) // max(count, 1)
        self.inputs.append(Input(name, "state", axes, count=count))
        return States(tuple(Piece(name, "", False, i, size) for i in range(count)), axes)

    def _sizes(self, axes, dims):
        for axis, size in zip(axes, dims):
            if axis in ("T", "B"):
                if size is not None:
                    self.conversion.sizes[axis] = size
                if {"T", "B"} <= set(self.conversion.sizes):
                    both = self.conversion.sizes["T"] * self.conversion.sizes["B"]
                    self.conversion.sizes |= {"TB": both, "BT": both}
            elif not axis:
                raise Unsupported(f"has axes of features whose size is not known: {axes_text(axes)}")

    def _output(self, name, value, names):
        if isinstance(value, numpy.ndarray):
            return Output(name, "constant", constant=value)
        if isinstance(value, States):
            if not all(piece.text for piece in value.pieces):
                raise Unsupported("is an initial state as it was given")
            return Output(name, "states", value.axes, tuple(piece.source for piece in value.pieces))
        if not isinstance(value, Value):
            raise Unsupported("nothing gives it")
        if value.text in self.conversion.integers:
            raise Unsupported("is an input of integers as it was given")
        if any(axis in ("TB", "BT") for axis in value.axes):
            raise Unsupported("has steps and sequences in one axis")
        text = value.text
        if not text.isidentifier() or text in names or text in dict(self.arguments):
            text = self.scope.body.fresh(name)
            self.scope.body.lines.append(f"{text} = {value.text}")
        names.append(text)
        return Output(name, "last" if value.last else "steps", value.axes, (text,))


def _roles(graph):
    """What inputs are that recurrent nodes read, perhaps in parts: by name."""
    made_by = {name: node for node in graph.node for name in node.output}
    roles = {}

    def follow(name, role):
        while name in made_by and made_by[name].op_type in PASSING and made_by[name].input:
            name = made_by[name].input[0]
        roles.setdefault(name, role)

    slots = ("steps", "weights", "weights", "weights", "lengths", "state", "state", "weights")
    for node in graph.node:
        if node.op_type in RECURRENT:
            layout = next((a.i for a in node.attribute if a.name == "layout"), 0)
            for name, role in zip(node.input[1:], slots[1:]):
                follow(name, (role, layout))
        elif node.op_type == "Scan":
            count = next((a.i for a in node.attribute if a.name == "num_scan_inputs"), 0)
            for name in node.input[: max(len(node.input) - count, 0)]:
                follow(name, ("state", 1))
    roles.pop("", None)
    return roles
