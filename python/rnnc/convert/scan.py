"""Scan nodes: the body becomes a cell."""

from math import prod

import numpy

from rnnc.convert.operators import operator
from rnnc.convert.problems import Unsupported
from rnnc.convert.text import Body, shape_text
from rnnc.convert.values import Piece, States, Value, features


@operator("Scan")
def scan(scope, node, *operands):
    if scope.opset < 9:
        raise Unsupported("is of opset 8, where Scan has other arguments; opset 9 and later are supported")
    if scope.body.reads:
        raise Unsupported("is a recurrence within a step of another")
    graph = scope.attribute(node, "body", None)
    count = scope.attribute(node, "num_scan_inputs", 0)
    given, scanned = operands[: len(operands) - count], operands[len(operands) - count :]
    if len(graph.input) != len(operands) or len(graph.output) != len(node.output):
        raise Unsupported("has a body of another number of inputs or outputs")
    is_reversed = _direction(scope, node, count, len(node.output) - len(given))
    inner = _StepScope(scope, graph)
    inputs = [
        inner.take_input(graph.input[len(given) + i], v, _axis(scope, node, "input", i))
        for i, v in enumerate(scanned)
    ]
    has_batch = any("B" in value.axes for value in scanned)
    states = [inner.take_state(graph.input[i], value, has_batch) for i, value in enumerate(given)]
    inner.run(graph)
    outputs = inner.outputs(graph, states)
    text = inner.text([v.text for v in inputs], states, outputs)
    cell = scope.body.module.cell("Scan", text)
    layer = scope.body.module.call(cell, inner.body.params)
    hint = node.name or node.output[0] or "scan"
    names = [scope.body.fresh(f"{hint}_{name}") for name in (*outputs, *(s.name for s in states))]
    arguments = ", ".join(value.as_vector() for value in scanned)
    target = names[0] if len(names) == 1 else f"({', '.join(names)})"
    scope.body.lines.append(f"{target} = {'reverse ' if is_reversed else ''}{cell}({arguments})")
    results = []
    for state, name in zip(states, names[len(outputs) :]):
        piece = Piece(f"{layer}.{state.name}", name, is_reversed, 0, prod(features(state.axes)))
        results.append(States((piece,), state.axes))
        if state.piece is not None:
            scope.start(piece.source, state.piece)
    for i, (name, value) in enumerate(zip(names, outputs.values())):
        axes = list(value.axes)
        axes.insert(_axis(scope, node, "output", i) % (len(axes) + 1), "T")
        results.append(Value(name, tuple(axes), value.vector))
    return results


def _axis(scope, node, which, index):
    axes = scope.attribute(node, f"scan_{which}_axes", None)
    return axes[index] if axes else 0


def _direction(scope, node, inputs, outputs):
    directions = [*(scope.attribute(node, "scan_input_directions", None) or [0] * inputs)]
    directions += scope.attribute(node, "scan_output_directions", None) or [0] * outputs
    if len(set(directions)) > 1:
        raise Unsupported("goes forward in some arrays and in reverse in others")
    return bool(directions[0]) if directions else False


class _State:
    def __init__(self, name, axes, piece, start):
        self.name, self.axes, self.piece, self.start = name, axes, piece, start


class _StepScope:
    """The body's graph, with the values that it begins with."""

    def __init__(self, outer, graph):
        constants = {n: v for n, v in outer.env.items() if isinstance(v, numpy.ndarray)}
        self.outer = outer
        self.body = Body(outer.body.module, reads="[t]")
        self.scope = type(outer)(outer.conversion, self.body, constants)

    def take_input(self, info, value, axis):
        if not isinstance(value, Value) or value.last:
            raise Unsupported("scans what is no sequence")
        axis %= len(value.axes)
        if value.axes[axis] != "T":
            raise Unsupported(f"scans an axis that is not the steps': {list(value.axes)}")
        name = self.body.fresh(info.name)
        inside = Value(f"{name}[t]", value.axes[:axis] + value.axes[axis + 1 :])
        self.scope.env[info.name] = inside
        return Value(f"{name}: {shape_text([value.size])}", inside.axes)

    def take_state(self, info, value, has_batch):
        name, piece, start = self.body.fresh(info.name), None, ""
        if isinstance(value, numpy.ndarray):
            axes = (("B",) if has_batch and value.ndim else ()) + value.shape[has_batch and value.ndim > 0 :]
            if has_batch and value.ndim and not (value == value[:1]).all():
                raise Unsupported("has a constant initial state that differs among sequences")
            rows = value[0] if has_batch and value.ndim else value
            if rows.any():
                start = f" = {self.body.param(f'{name}_0', rows.reshape(-1).astype(self.outer.dtype))}"
        elif isinstance(value, States) and len(value.pieces) == 1 and not value.pieces[0].text:
            axes, piece = value.axes, value.pieces[0]
        else:
            raise Unsupported("has an initial state that is computed")
        size = prod(features(axes))
        self.body.states.append(f"state {name}: {shape_text([size])}{start}")
        self.scope.env[info.name] = Value(f"{name}[t-1]", tuple(axes))
        return _State(name, tuple(axes), piece, start)

    def run(self, graph):
        before = len(self.outer.conversion.problems)
        self.scope.read_initializers(graph)
        self.scope.run(graph.node)
        inner = self.outer.conversion.problems[before:]
        if inner:
            del self.outer.conversion.problems[before:]
            raise Unsupported("has a body that cannot be expressed: " + "; ".join(inner))

    def outputs(self, graph, states):
        """Gives the states, and names what is scanned out: its name and value, by name."""
        values = [self._result(info) for info in graph.output]
        for state, value in zip(states, values):
            if value.size != prod(features(state.axes)):
                raise Unsupported(f"changes the size of the state `{state.name}`")
            self.body.lines.append(f"{state.name}[t] = {value.as_vector()}")
        outputs = {}
        for info, value in zip(graph.output[len(states) :], values[len(states) :]):
            name = self.body.fresh(info.name)
            self.body.lines.append(f"{name} = {value.as_vector()}")
            outputs[name] = Value(name, value.axes)
        return outputs

    def _result(self, info):
        value = self.scope.env.get(info.name)
        if isinstance(value, numpy.ndarray):
            flat = value.reshape(-1).astype(self.outer.dtype)
            return Value(self.body.param(info.name, flat), value.shape)
        if not isinstance(value, Value):
            raise Unsupported(f"has a body that does not give `{info.name}`")
        return value

    def text(self, inputs, states, outputs):
        names = [*outputs, *(state.name for state in states)]
        lines = "".join(f"  {line}\n" for line in self.body.statements())
        given = names[0] if len(names) == 1 else f"({', '.join(names)})"
        return f"/// The body of a Scan.\ncell NAME({', '.join(inputs)}) -> {given} {{\n{lines}}}"
