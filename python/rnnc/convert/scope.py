"""Walks the nodes of a graph: constants are folded, all else is for the operators' functions."""

from dataclasses import dataclass, field

import numpy

from rnnc.convert import recurrent, scan  # noqa: F401  (they add their operators)
from rnnc.convert.operators import OPERATORS
from rnnc.convert.problems import Unsupported
from rnnc.convert.text import Body, Module
from rnnc.convert.values import STEPS, Value

MOST_FOLDED = 2**26  # elements of a constant that a shape asks for
NEVER_FOLDED = ("CenterCropPad", "EyeLike", "OneHot", "Pad", "Range", "Resize", "Upsample")  # of any size
PASSING = ("Identity", "Cast", "Squeeze", "Unsqueeze")  # on arrays with "T" and "B" in them


class Lengths(str):
    """The input that has the sequences' lengths."""


class Failed:
    """Stands for what a node that is not converted would have given, or an input."""


@dataclass
class Conversion:
    """What all graphs of one model share."""

    opsets: dict
    dtype: type
    sizes: dict = field(default_factory=dict)  # of "T" and "B", where the model fixes them
    module: Module = field(default_factory=Module)
    integers: set = field(default_factory=set)  # texts of values that are integers
    lengths: list = field(default_factory=list)  # what recurrent nodes have: None, an array, Lengths
    starts: dict = field(default_factory=dict)  # state of a layer: the Piece of an input it begins with
    problems: list = field(default_factory=list)
    done: int = 0


class Scope:
    """One graph: the model's, whose nodes become a network, or that of a Scan's step."""

    def __init__(self, conversion, body=None, env=None):
        self.conversion = conversion
        self.body = body or Body(conversion.module)
        self.env = env if env is not None else {}
        self.opset = conversion.opsets.get("", 1)
        self.dtype, self.sizes, self.integers = conversion.dtype, conversion.sizes, conversion.integers

    def attribute(self, node, name, default):
        from onnx import helper

        found = next((a for a in node.attribute if a.name == name), None)
        return default if found is None else helper.get_attribute_value(found)

    def take_last_step(self):
        if any(lengths is not None for lengths in self.conversion.lengths):
            raise Unsupported("takes the last step where sequences have lengths of their own")
        self.conversion.lengths.append(None)  # so that none have them later on

    def use_lengths(self, lengths):
        """All recurrences of a network have the same."""
        if isinstance(lengths, numpy.ndarray) and (lengths == self.sizes.get("T")).all():
            lengths = None
        if lengths is not None and not isinstance(lengths, (Lengths, numpy.ndarray)):
            raise Unsupported("has sequence_lens that are computed")
        for other in self.conversion.lengths:
            if type(other) is not type(lengths) or not numpy.array_equal(other, lengths):
                raise Unsupported("has sequence_lens other than those of what is before it")
        self.conversion.lengths.append(lengths)

    def start(self, state, piece):
        self.conversion.starts[state] = piece

    def read_initializers(self, graph):
        from onnx import numpy_helper

        for tensor in graph.initializer:
            self.env[tensor.name] = Failed
            try:
                self.env[tensor.name] = numpy_helper.to_array(tensor)
            except Exception as error:  # a file may hold anything at all
                problem = f"initializer `{tensor.name}` is malformed: {type(error).__name__}: {error}"
                self.conversion.problems.append(problem)

    def run(self, nodes):
        for node in nodes:
            outputs = [Failed] * len(node.output)  # others' blame for what reads them is none
            try:
                operands = [self._operand(name) for name in node.input]
                if not any(operand is Failed for operand in operands):
                    outputs = self._evaluate(node, operands)
                    self.conversion.done += 1
            except Unsupported as problem:
                self._blame(node, str(problem))
            except Exception as error:  # a file may hold anything at all
                self._blame(node, f"is malformed: {type(error).__name__}: {error}")
            self.env.update(zip(node.output, outputs))

    def _blame(self, node, reason):
        name = node.name or next(iter(node.output), "")
        self.conversion.problems.append(f"node `{name}` ({node.op_type}): {reason}")

    def _operand(self, name):
        if name and name not in self.env:
            raise Unsupported(f"reads `{name}`, which nothing before it gives")
        return self.env[name] if name else None

    def _evaluate(self, node, operands):
        if node.domain not in ("", "ai.onnx"):
            raise Unsupported(f"is of the domain `{node.domain}`, which is not ONNX's own")
        if node.op_type == "Shape":
            return [self._shape(node, operands[0])]
        known = [o for o in operands if o is not None]
        if all(isinstance(o, numpy.ndarray) for o in known):
            return self._fold(node, operands)
        function = OPERATORS.get(node.op_type)
        if function is None:
            raise Unsupported("this operator is not supported")
        if any(isinstance(o, Lengths) for o in known) and node.op_type not in ("LSTM", "GRU", "RNN"):
            raise Unsupported("computes with the lengths of sequences")
        if any(isinstance(o, Value) and o.text in self.integers for o in known) and node.op_type not in (
            "Gather",
            "Identity",
        ):
            raise Unsupported("computes with an input of integers, which only a table may read")
        result = function(self, node, *operands)
        return result if isinstance(result, list) else [result]

    def _shape(self, node, value):
        sizes = value.shape if isinstance(value, numpy.ndarray) else value.axes
        kept = slice(self.attribute(node, "start", 0), self.attribute(node, "end", None))
        return numpy.array(list(sizes)[kept], dtype=object)

    def _fold(self, node, operands):
        """Of constants. A size that varies counts as 1 in a constant array: it broadcasts."""
        if node.op_type.startswith(("Random", "Bernoulli", "Multinomial")):
            raise Unsupported("draws random numbers")
        if node.op_type in NEVER_FOLDED or any(a.HasField("g") or a.graphs for a in node.attribute):
            raise Unsupported("this operator is not supported, even of constants")
        symbolic = any(o is not None and o.dtype == object for o in operands)
        if symbolic and node.op_type in ("Cast", "Identity"):
            return [operands[0]]
        if symbolic and node.op_type in ("ConstantOfShape", "Expand"):
            shape = [1 if size in STEPS else int(size) for size in operands[-1]]
            operands = [*operands[:-1], numpy.array(shape, dtype=numpy.int64)]
            symbolic = False
        if symbolic and node.op_type not in (
            *PASSING, "Concat", "Gather", "Slice", "Equal", "Where", "Reshape",
        ):  # fmt: skip
            raise Unsupported("computes with the number of steps or sequences")
        if node.op_type in ("ConstantOfShape", "Expand", "Tile"):
            count = numpy.prod([float(size) for size in operands[-1].reshape(-1)])
            if count * (operands[0].size if node.op_type == "Tile" else 1) > MOST_FOLDED:
                raise Unsupported("makes a constant of too many elements")
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(node, opsets=self.conversion.opsets)
        given = {name: o for name, o in zip(node.input, operands) if name}
        kind = object if symbolic else None  # else texts become arrays of texts
        return [numpy.asarray(result, dtype=kind) for result in evaluator.run(None, given)]
