"""LSTM, GRU and RNN nodes: a cell with the equations of their attributes, called in each direction."""

from dataclasses import dataclass

import numpy

from rnnc.convert.operators import operator
from rnnc.convert.problems import Unsupported
from rnnc.convert.text import number
from rnnc.convert.values import Piece, States, Value

# Pattern, and the attributes that it has; None: they must be given.
ACTIVATIONS = {
    "affine": ("({alpha} * ({0}) + {beta})", {"alpha": None, "beta": None}),
    "elu": ("elu_of({0}, {alpha})", {"alpha": 1.0}),
    "hardsigmoid": ("clamp({alpha} * ({0}) + {beta}, 0, 1)", {"alpha": 0.2, "beta": 0.5}),
    "leakyrelu": ("leaky_relu({0}, {alpha})", {"alpha": 0.01}),
    "relu": ("relu({0})", {}),
    "scaledtanh": ("{alpha} * tanh({beta} * ({0}))", {"alpha": None, "beta": None}),
    "sigmoid": ("sigmoid({0})", {}),
    "softplus": ("softplus({0})", {}),
    "softsign": ("softsign({0})", {}),
    "tanh": ("tanh({0})", {}),
    "thresholdedrelu": ("thresholded_relu({0}, {alpha})", {"alpha": 1.0}),
}
FUNCTIONS = {
    "elu_of": "fn elu_of(v, alpha) = relu(v) + alpha * expm1(min(v, 0))",
    "thresholded_relu": "fn thresholded_relu(v, alpha) = where(v > alpha, v, 0)",
}
# Gates in ONNX's order, of weights and biases; of peepholes.
GATES = {"LSTM": "iofc", "GRU": "zrh", "RNN": "h"}
PEEPHOLES = "iof"
DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
TITLES = {
    "LSTM": "Long short-term memory, as ONNX's operator LSTM has it.",
    "GRU": "Gated recurrent unit, as ONNX's operator GRU has it.",
    "RNN": "Elman network, as ONNX's operator RNN has it.",
}


@dataclass
class Direction:
    """One direction of a node: functions for its gates, and its weights by the cell's names."""

    kind: str
    activations: list  # from text to text, in ONNX's order f, g, h
    clip: float
    couples: bool  # input_forget
    resets_after: bool  # linear_before_reset
    params: dict
    initial: dict  # state: the name of the param it begins with

    def activate(self, index, argument):
        if self.clip:
            argument = f"clamp({argument}, -{number(self.clip)}, {number(self.clip)})"
        return self.activations[index](argument)

    def gate(self, name, state="h[t-1]"):
        """What goes into an activation: products and the bias, where there is one."""
        bias = f" + b_{name}" if f"b_{name}" in self.params else ""
        return f"W_{name} @ x[t] + R_{name} @ {state}{bias}"

    def peephole(self, name, state):
        return f" + P_{name} * {state}" if f"P_{name}" in self.params else ""

    def cell(self, gives_c):
        steps = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self.kind]()
        states = ["h", "c"] if self.kind == "LSTM" else ["h"]
        lines = [f"state {s}: [H]" + (f" = {self.initial[s]}" if s in self.initial else "") for s in states]
        for prefix, shape in ("W", "[H, I]"), ("R", "[H, H]"), ("b", "[H]"), ("P", "[H]"):
            names = [name for name in self.params if name.startswith(prefix + "_")]
            lines += [f"param {', '.join(names)}: {shape}"] if names else []
        lines += [f"param {name}: [H]" for name in self.initial.values()]
        outputs = "(h, c)" if gives_c else "h"
        body = "".join(f"  {line}\n" for line in [*lines, *steps])
        return f"/// {TITLES[self.kind]}\ncell NAME[I, H](x: [I]) -> {outputs} {{\n{body}}}"

    def _lstm(self):
        forget = "1 - i"
        if not self.couples:
            forget = self.activate(0, self.gate("f") + self.peephole("f", "c[t-1]"))
        return [  # ONNX Runtime clips what goes into gates, not c
            f"i = {self.activate(0, self.gate('i') + self.peephole('i', 'c[t-1]'))}",
            f"f = {forget}",
            f"g = {self.activate(1, self.gate('c'))}",
            "c[t] = f * c[t-1] + i * g",
            f"o = {self.activate(0, self.gate('o') + self.peephole('o', 'c[t]'))}",
            f"h[t] = o * {self.activations[2]('c[t]')}",
        ]

    def _gru(self):
        if self.resets_after:
            bias = " + b_hr" if "b_hr" in self.params else ""
            product = f"r * (R_h @ h[t-1]{bias})"
        else:
            product = "R_h @ (r * h[t-1])"
        bias = " + b_h" if "b_h" in self.params else ""
        return [
            f"z = {self.activate(0, self.gate('z'))}",
            f"r = {self.activate(0, self.gate('r'))}",
            f"n = {self.activate(1, f'W_h @ x[t] + {product}{bias}')}",
            "h[t] = (1 - z) * n + z * h[t-1]",
        ]

    def _rnn(self):
        return [f"h[t] = {self.activate(0, self.gate('h'))}"]


@operator("LSTM", "GRU", "RNN")
def recurrent(scope, node, x, w, r, b=None, lengths=None, h0=None, c0=None, p=None):
    """Layers side by side, one for each direction."""
    if scope.body.reads:
        raise Unsupported("is a recurrence within a step of another")
    x = _sequence(scope, node, x)
    kind, gates = node.op_type, len(GATES[node.op_type])
    direction = scope.attribute(node, "direction", b"forward").decode(errors="replace")
    if direction not in ("forward", "reverse", "bidirectional"):
        raise Unsupported(f"has direction `{direction}`")
    directions = [
        d == "reverse" for d in ([direction] if direction != "bidirectional" else ["forward", "reverse"])
    ]
    count = len(directions)
    r = _weights(r, "R", 3)
    hidden = r.shape[2]
    shapes = {
        "W": (w, (count, gates * hidden, x.size)),
        "R": (r, (count, gates * hidden, hidden)),
        "B": (b, (count, 2 * gates * hidden)),
        "P": (p, (count, len(PEEPHOLES) * hidden)),
    }
    w, r, b, p = (_fitting(scope, name, array, shape) for name, (array, shape) in shapes.items())
    if scope.attribute(node, "hidden_size", hidden) != hidden:
        raise Unsupported(f"has hidden_size {scope.attribute(node, 'hidden_size', 0)}, and R is for {hidden}")
    scope.use_lengths(lengths)
    layout = scope.attribute(node, "layout", 0)
    if layout:
        h0, c0 = (s.swapaxes(0, 1) if isinstance(s, numpy.ndarray) and s.ndim == 3 else s for s in (h0, c0))
    has = [bool(name) for name in (*node.output, "", "", "")]
    activations = _activations(scope, node, count)
    texts, finals = [], {"h": [], "c": []}
    for index, is_reversed in enumerate(directions):
        initial = {"h": _initial(scope, h0, index, hidden), "c": _initial(scope, c0, index, hidden)}
        layer = Direction(
            kind=kind,
            activations=activations[index],
            clip=scope.dtype(scope.attribute(node, "clip", 0.0)),
            couples=bool(scope.attribute(node, "input_forget", 0)),
            resets_after=bool(scope.attribute(node, "linear_before_reset", 0)),
            params=_params(kind, hidden, w[index], r[index], b, p, index),
            initial={s: f"{s}_0" for s, given in initial.items() if isinstance(given, numpy.ndarray)},
        )
        _drop_unused(layer)
        starts = {f"{s}_0": initial[s] for s in layer.initial}
        gives_c = has[2] and kind == "LSTM"
        cell = scope.body.module.cell(kind, layer.cell(gives_c))
        name = scope.body.module.call(cell, {**layer.params, **starts})
        call = f"{'reverse ' if is_reversed else ''}{cell}[H = {hidden}]({x.as_vector()})"
        hint = node.name or node.output[0] or name
        own = node.output[0] if count == 1 else ""  # the value of an output has its name
        texts.append({"h": scope.body.fresh(own or f"{hint}_h")})
        if gives_c:
            texts[-1]["c"] = scope.body.fresh(f"{hint}_c")
        target = ", ".join(texts[-1].values())
        scope.body.lines.append(f"({target}) = {call}" if gives_c else f"{target} = {call}")
        for state in ("h", "c") if kind == "LSTM" else ("h",):
            piece = Piece(f"{name}.{state}", texts[-1].get(state, ""), is_reversed, index, hidden)
            finals[state].append(piece)
            if isinstance(initial[state], Piece):
                scope.start(piece.source, initial[state])
    joined = [t["h"] for t in texts]
    y = joined[0] if count == 1 else scope.body.let(node.output[0] or "y", f"concat({', '.join(joined)})")
    axes = ("B", count, hidden) if layout else (count, "B", hidden)
    y_axes = ("B", "T", count, hidden) if layout else ("T", count, "B", hidden)
    states = [States(tuple(finals[s]), axes) for s in ("h", "c")]
    return [Value(y, y_axes), *states][: len(node.output)]


def _sequence(scope, node, x):
    if not isinstance(x, Value) or x.last or x.text in scope.integers:
        raise Unsupported("has an input X that is no sequence of vectors")
    wanted = ("B", "T") if scope.attribute(node, "layout", 0) else ("T", "B")
    if x.axes[:2] != wanted or len(x.axes) != 3:
        raise Unsupported(f"wants an input of axes {', '.join(wanted)} and features, and X is {list(x.axes)}")
    return x


def _weights(array, name, rank):
    if not isinstance(array, numpy.ndarray) or array.ndim != rank:
        raise Unsupported(f"has {name} that is no constant of {rank} axes")
    return array


def _fitting(scope, name, array, shape):
    if array is None:
        return None
    if _weights(array, name, len(shape)).shape != shape:
        raise Unsupported(f"has {name} of shape {list(array.shape)}, expected {list(shape)}")
    return array.astype(scope.dtype)


def _params(kind, hidden, w, r, b, p, index):
    """By name, of one direction."""
    params = {}
    for prefix, array in ("W", w), ("R", r):
        for i, gate in enumerate(GATES[kind]):
            params[f"{prefix}_{gate}"] = array[i * hidden : (i + 1) * hidden]
    if b is not None:
        of_inputs, of_states = numpy.split(b[index], 2)
        for i, gate in enumerate(GATES[kind]):
            part = slice(i * hidden, (i + 1) * hidden)
            if kind == "GRU" and gate == "h":  # for linear_before_reset they stay apart
                params["b_h"], params["b_hr"] = of_inputs[part], of_states[part]
            else:
                params[f"b_{gate}"] = of_inputs[part] + of_states[part]
    if p is not None:
        for i, gate in enumerate(PEEPHOLES):
            params[f"P_{gate}"] = p[index][i * hidden : (i + 1) * hidden]
    return params


def _drop_unused(layer):
    """What the equations do not read; of a GRU that resets before its product, biases add up."""
    if layer.couples:
        for name in "W_f", "R_f", "b_f", "P_f":
            layer.params.pop(name, None)
    if layer.kind == "GRU" and not layer.resets_after and "b_hr" in layer.params:
        layer.params["b_h"] = layer.params["b_h"] + layer.params.pop("b_hr")


def _initial(scope, state, index, hidden):
    """None for zeros, an array that all sequences begin with, or a piece of an input."""
    if state is None:
        return None
    if isinstance(state, numpy.ndarray):
        rows = state.reshape(-1, hidden) if state.size else state
        if not rows.any():
            return None
        if state.ndim != 3 or state.shape[1] != 1 and not (state == state[:, :1]).all():
            raise Unsupported("has a constant initial state that differs among sequences")
        return state[index, 0].astype(scope.dtype)
    if not isinstance(state, States) or index >= len(state.pieces) or state.pieces[index].size != hidden:
        raise Unsupported("has an initial state that is computed")
    if state.pieces[index].text or "." in state.pieces[index].source:
        raise Unsupported("begins with what another layer ended with")
    return state.pieces[index]


def _activations(scope, node, directions):
    """For each direction the functions f, g, h; attributes are consumed by those that have some."""
    names = scope.attribute(node, "activations", None)
    each = len(DEFAULTS[node.op_type])
    if names is None:
        names = DEFAULTS[node.op_type] * directions
    else:
        names = [name.decode(errors="replace") for name in names]
    if len(names) != each * directions:
        raise Unsupported(f"has {len(names)} activations, expected {each * directions}")
    left = {a: list(scope.attribute(node, f"activation_{a}", ()) or ()) for a in ("alpha", "beta")}
    made = []
    for name in names:
        if name.lower() not in ACTIVATIONS:
            raise Unsupported(f"has an activation `{name}`; there are {', '.join(sorted(ACTIVATIONS))}")
        pattern, attributes = ACTIVATIONS[name.lower()]
        values = {}
        for attribute, default in attributes.items():
            value = left[attribute].pop(0) if left[attribute] else default
            if value is None:
                raise Unsupported(f"has an activation `{name}` without activation_{attribute}")
            values[attribute] = number(scope.dtype(value))
        for function, definition in FUNCTIONS.items():
            if function + "(" in pattern:
                scope.body.module.function(function, definition)
        made.append(_activation(pattern, values))
    return [made[i : i + each] for i in range(0, len(made), each)]


def _activation(pattern, values):
    for attribute, text in values.items():
        pattern = pattern.replace("{" + attribute + "}", text)
    return pattern.format
