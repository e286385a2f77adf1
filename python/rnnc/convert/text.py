"""The `.rnn` text that a conversion writes, line by line, and the params behind it."""

import re

import numpy

from rnnc.convert.problems import Unsupported

# No value takes a name that a generated line may mean otherwise.
RESERVED = frozenset("""cell network fn const import state param blocks for in reverse as int t
    sigmoid tanh relu exp log log1p expm1 sqrt rsqrt abs sign floor round softplus silu gelu elu erf sin cos
    min max pow mod clamp where step sum mean var dot concat softmax log_softmax softsign leaky_relu mish
    selu celu hardswish""".split())


def identifier(name):
    """A name of the language like one of ONNX."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")[:60] or "v"
    if not name[0].isalpha():
        name = "v" + name
    return name + "_" if name in RESERVED else name


def number(value):
    """A literal; as short as makes the same float32, or float64 where it is one."""
    if not numpy.isfinite(value):
        raise Unsupported(f"the constant {value} has no literal")
    text = str(value) if isinstance(value, numpy.floating) else repr(float(value))
    return f"({text})" if value < 0 else text


class Body:
    """Statements of one cell or network. `reads` is what stands behind the names of inputs."""

    def __init__(self, module, reads=""):
        self.module, self.reads = module, reads
        self.names = set()
        self.states = []  # declarations
        self.params = {}  # name: array
        self.lines = []

    def fresh(self, hint):
        base, count = identifier(hint), 1
        name = base
        while name in self.names:
            count += 1
            name = f"{base}_{count}"
        self.names.add(name)
        return name

    def let(self, hint, expression):
        """Gives an expression a name, unless it is one."""
        if expression.isidentifier():
            return expression
        name = self.fresh(hint)
        self.lines.append(f"{name} = {expression}")
        return name

    def param(self, hint, array):
        name = self.fresh(f"{hint}_param")
        self.params[name] = numpy.ascontiguousarray(array)
        return name

    def statements(self):
        declared = [f"param {n}: {shape_text(a.shape)}" for n, a in self.params.items()]
        return self.states + declared + self.lines


def shape_text(shape):
    return "[" + ", ".join(map(str, shape)) + "]"


class Module:
    """A file: functions, cells, and the network that calls them."""

    def __init__(self):
        self.functions = {}  # name: definition
        self.cells = {}  # name: text
        self.calls = {}  # name: how many times
        self.params = {}  # of all cells that are called, by the names that weights have

    def function(self, name, definition):
        self.functions[name] = definition
        return name

    def cell(self, name, text):
        """Of a text in which `NAME` stands for the name; what is the same is one cell."""
        count = 1
        found = name
        while self.cells.setdefault(found, text) != text:
            count += 1
            found = f"{name}{count}"
        self.calls.setdefault(found, 0)
        return found

    def call(self, cell, params):
        """The name of one more layer of a cell (`LSTM.0`), whose params are these."""
        layer = f"{cell}.{self.calls[cell]}"
        self.calls[cell] += 1
        self.params.update({f"{layer}.{name}": array for name, array in params.items()})
        return layer

    def text(self, heading, inputs, outputs, network):
        parts = ["\n".join(self.functions.values())] if self.functions else []
        parts += [text.replace("NAME", name, 1) for name, text in self.cells.items()]
        listed = ", ".join(f"{name}: {shape}" for name, shape in inputs)
        given = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
        lines = "".join(f"  {line}\n" for line in network.statements())
        parts.append(f"{heading}\nnetwork Model({listed}) -> {given} {{\n{lines}}}")
        return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"
