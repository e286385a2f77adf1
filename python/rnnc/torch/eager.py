"""The step of a cell as PyTorch operations, on tensors of any device, mode and transform.

`run` takes lists of tensors and no cell.
"""

import functools
import math

import torch
from torch.nn import functional


def run_source(source, inputs, params, states=None, lengths=None, reset=None):
    """Outputs and final states of a Source, whose tensors may hold several arrays each."""
    graph, layers = source.step(), source.layers
    pairs = zip(params, source.stacked)
    params = [part for p, count in pairs for part in (p.chunk(count) if count > 1 else [p])]
    if isinstance(states, dict):
        names = [info.name for info in source.states]
        for name in states:
            if name not in names:
                raise ValueError(f"there is no state {name!r}")
        states = [states.get(name) for name in names]
    if layers and states is not None:
        states = [None if s is None else s[layer] for layer in range(layers) for s in states]
    outputs, finals = run(graph, inputs, params, states, lengths, reset)
    if layers:
        kinds = len(source.states)
        finals = [torch.stack(finals[kind::kinds]) for kind in range(kinds)]
    return outputs, finals


# ---- Its values ----


def run(graph, inputs, params, states=None, lengths=None, reset=None):
    """Outputs and final states of a Graph, lists of tensors in its order.

    Inputs are [T, B, ...], params as declared, states [B, ...] (None: as declared), lengths [B],
    reset [T, B]. What has 16 bits is computed in float32.
    """
    steps, batch = inputs[0].shape[:2]
    device = inputs[0].device
    reals = [x for x in inputs if x.is_floating_point()]
    dtype = (reals or params or [torch.empty(0)])[0].dtype
    shapes = {name: state.shape for name, state in graph.states.items()}
    inputs = _named("input", graph.inputs, inputs, (steps, batch))
    params = _named("param", graph.params, params, ())
    states = _named("state", shapes, states or [None] * len(shapes), (batch,))
    types = [t.dtype for tensors in (inputs, params, states) for t in tensors.values()]
    types = [kind for kind in types if kind.is_floating_point]
    computed = functools.reduce(torch.promote_types, types, torch.float32)
    inputs, params, states = (
        {
            name: tensor.to(computed) if tensor.is_floating_point() else tensor
            for name, tensor in tensors.items()
        }
        for tensors in (inputs, params, states)
    )
    if reset is not None:
        reset = torch.as_tensor(reset, device=device) != 0
    if lengths is not None:
        lengths = torch.as_tensor(lengths, device=device)
    values = _Values(graph, inputs, params, states, lengths, reset, computed)
    outputs, finals = values.run()
    return [y.to(dtype) for y in outputs], finals


def _named(kind, shapes, tensors, leading):
    """By name, those that are there."""
    if len(tensors) != len(shapes):
        names = ", ".join(shapes)
        raise ValueError(f"{len(tensors)} {kind}s, expected {len(shapes)}: {names}")
    named = {name: tensor for name, tensor in zip(shapes, tensors) if tensor is not None}
    for name, tensor in named.items():
        wanted = leading + shapes[name]
        if tensor.shape != wanted:
            raise ValueError(
                f"{kind} {name} has shape {list(tensor.shape)}, expected {list(wanted)}"
            )
    return named


class _Values:
    """All values of all steps, each [B, ...]; those of invariants are [1, ...].

    Past a sequence's end its first step is computed again, and for sequences without steps those of
    the longest: so nothing is infinite or NaN there that is not within a sequence.
    """

    def __init__(self, graph, inputs, params, states, lengths, reset, dtype):
        self.graph, self.inputs, self.params, self.given = graph, inputs, params, states
        x = next(iter(inputs.values()))
        self.steps, self.batch, self.device, self.dtype = *x.shape[:2], x.device, dtype
        self.time = torch.arange(self.steps, device=self.device)[:, None]
        self.numbers = torch.arange(self.batch, device=self.device)
        self.lengths = torch.full_like(self.numbers, self.steps)
        self.given_lengths, self.rows = lengths, None
        if lengths is not None:
            longest = lengths.argsort(descending=True)[:1]
            self.rows = torch.where(lengths > 0, self.numbers, longest)
            self.lengths = lengths[self.rows]
        self.valid = self.time < self.lengths  # [T, B]
        if lengths is not None:
            self.inputs = {name: self._extended(x[:, self.rows]) for name, x in inputs.items()}
            reset = None if reset is None else reset[:, self.rows]
        self.resets = None  # by whether a state is reversed
        if reset is not None:
            self.resets = {False: reset, True: self._reversed_reset(reset)}
        self.invariant = {}  # by node
        self.values = {}  # of all steps
        self.carried = {}  # by state: before the first step, and after each

    def _extended(self, x):
        """Past the end the first step, or zeros if there is none."""
        first = torch.where(_spread(self.lengths > 0, x.dim() - 1), x[:1], 0)
        return torch.where(_spread(self.valid, x.dim()), x, first)

    def _reversed_reset(self, reset):
        """A reset at step r parts it from step r - 1: in reverse that is at step length - r."""
        step = (self.lengths - self.time).clamp(0, self.steps - 1)
        return reset[step, self.numbers] & (self.time > 0) & self.valid

    def run(self):
        for number in self.graph.invariant:
            self.invariant[number] = self._evaluate(number, None)
        first = {name: self._first(name) for name in self.graph.states}
        for name, value in first.items():
            self.carried[name] = [value if self.rows is None else value[self.rows]]
        for nodes, states in self.graph.sweeps:
            self._go_over(nodes, states)
        outputs = [self._output(number) for number in self.graph.outputs.values()]
        finals = [values[-1] for values in self.carried.values()]
        if self.rows is not None:
            finals = [
                torch.where(_spread(self.given_lengths > 0, last.dim()), last, value)
                for last, value in zip(finals, first.values())
            ]
        return outputs, finals

    def _first(self, name):
        """The given value of a state, or of what it is a delay of, or the declared one."""
        origin = name
        while origin is not None and origin not in self.given:
            origin = self.graph.states[origin].delay_of
        if origin is None:
            return self._declared(name)
        value = self.given[origin]
        shape = self.graph.states[name].shape
        # Each value of a history starts as the state does.
        return value if value.dim() > len(shape) else value.unsqueeze(1).expand(-1, *shape)

    def _declared(self, name):
        state = self.graph.states[name]
        return self._of_batch(self.invariant[state.init], state.shape)

    def _of_batch(self, value, shape):
        return _spread(value, len(shape) + 1).expand(self.batch, *shape)

    def _go_over(self, nodes, states):
        whole = [number for number in nodes if self.graph.nodes[number].op in SEQUENCES]
        for number in whole:
            self.values[number] = self._sequence(self.graph.nodes[number])
        each = [number for number in nodes if number not in self.values]
        self.values.update((number, []) for number in each)
        for t in range(self.steps):
            for number in each:
                self.values[number].append(self._evaluate(number, t))
            for name in states:
                self.carried[name].append(self._next(name, t))

    def _sequence(self, node):
        """All steps of an input, or of an earlier sweep's value in reverse."""
        if node.op == "input":
            return self.inputs[node.name]
        if node.op == "reversed_input":
            return self._reversed(self.inputs[node.name])
        return self._reversed(self._stacked(node.operands[0]))

    def _reversed(self, sequence):
        if self.rows is None:
            return sequence.flip(0)
        last = self.lengths - 1
        step = torch.where(self.valid, last - self.time, last).clamp(min=0)
        return sequence[step, self.numbers]

    def _stacked(self, number):
        shape = self.graph.nodes[number].shape
        steps = [self._of_batch(self._at(number, t), shape) for t in range(self.steps)]
        if steps:
            return torch.stack(steps)
        return torch.empty((0, self.batch, *shape), dtype=self.dtype, device=self.device)

    def _output(self, number):
        value = self._stacked(number)
        if self.rows is None:
            return value
        return torch.where(_spread(self.time < self.given_lengths, value.dim()), value, 0)

    def _next(self, name, t):
        state = self.graph.states[name]
        value = self._of_batch(self._at(state.next, t), state.shape)
        if self.rows is None:
            return value
        return torch.where(_spread(self.valid[t], value.dim()), value, self.carried[name][-1])

    def _read(self, name, t):
        """A state before step t."""
        value = self.carried[name][t]
        if self.resets is not None:
            begins = self.resets[self.graph.states[name].reversed][t]
            value = torch.where(_spread(begins, value.dim()), self._declared(name), value)
        if self.rows is None or t == 0:
            return value
        return torch.where(_spread(self.valid[t], value.dim()), value, self._read(name, 0))

    def _at(self, number, t):
        return self.invariant[number] if number in self.invariant else self.values[number][t]

    def _evaluate(self, number, t):
        node = self.graph.nodes[number]
        if node.op == "state":
            return self._read(node.name, t)
        if node.op == "param":
            return self.params[node.name][None]
        if node.op in ("const", "vector", "range", "eye"):
            return self._numbers(node)
        if node.op == "real":
            return self._at(node.operands[0], t).to(self.dtype)
        if node.op not in OPS:
            raise ValueError(f"{node.op!r} is no op of a cell's graph")
        return OPS[node.op](node, *(self._at(operand, t) for operand in node.operands))

    def _numbers(self, node):
        like = {"dtype": self.dtype, "device": self.device}
        if node.op == "range":
            return torch.arange(*node.shape, **like)[None]
        if node.op == "eye":
            return torch.eye(node.shape[0], **like)[None]
        return torch.tensor(node.numbers, **like).reshape(1, *node.shape)


SEQUENCES = ("input", "reversed_input", "reverse")


def _spread(tensor, rank):
    """With axes of 1 behind its own."""
    return tensor.reshape(tensor.shape + (1,) * (rank - tensor.dim()))


# ---- The ops, of [B, ...] each ----


def _elementwise(function):
    """Scalars go with anything."""

    def apply(node, *operands):
        return function(*(_spread(operand, len(node.shape) + 1) for operand in operands))

    return apply


def _compare(function):
    return _elementwise(lambda a, b: function(a, b).to(a.dtype))


def _sign(a):
    return torch.where(a.isnan(), a, torch.sign(a))


def _pow(a, b):
    return torch.where(a.isnan() | b.isnan(), a + b, torch.pow(a, b))


def _clamp(a, low, high):
    """torch.clamp's gradient, where operands are equal, depends on PyTorch's version."""
    bound = torch.where(low == high, low.detach(), low)
    raised = torch.where(a < low, bound, a)
    result = torch.where(raised > high, high, raised)
    return torch.where(low.isnan() | high.isnan(), low + high, result)


def _gelu(a):
    return 0.5 * a * torch.erfc(a * -math.sqrt(0.5))


def _together(parts):
    rows = torch.broadcast_shapes(*(part.shape[:1] for part in parts))
    return [part.expand(*rows, *part.shape[1:]) for part in parts]


def _rows(node, table, integers):
    """Of [1, V, ...] by [B]: zeros where there is no such row."""
    count = table.shape[1]
    rows = table[0][integers.clamp(0, count - 1).long()]
    inside = (integers >= 0) & (integers < count)
    return torch.where(_spread(inside, rows.dim()), rows, 0)


PRODUCTS = {(1, 1): "bi,bi->b", (1, 2): "bi,bij->bj", (2, 1): "bij,bj->bi", (2, 2): "bij,bjk->bik"}


def _product(node, left, right):
    if left.dim() == 4:  # block-diagonal
        right = right.reshape(right.shape[0], left.shape[1], left.shape[3])
        return torch.einsum("bnij,bnj->bni", left, right).flatten(1)
    if right.dim() == 4:
        left = left.reshape(left.shape[0], right.shape[1], right.shape[2])
        return torch.einsum("bni,bnij->bnj", left, right).flatten(1)
    return torch.einsum(PRODUCTS[left.dim() - 1, right.dim() - 1], left, right)


OPS = {
    "broadcast": lambda node, v: _spread(v, len(node.shape) + 1).expand(-1, *node.shape),
    "slice": lambda node, v: v[:, node.numbers[0] : node.numbers[1]],
    "index": lambda node, v: v[:, node.numbers[0]],
    "concat": lambda node, *parts: torch.cat(_together(parts), 1),
    "stack": lambda node, *parts: torch.stack(_together(parts), 1),
    "transpose": lambda node, v: v.transpose(1, 2),
    "reverse": lambda node, v: v,  # of an invariant
    "rows": _rows,
    "matmul": _product,
    "sum": lambda node, v: v.sum(-1),
    "mean": lambda node, v: v.mean(-1),
    "var": lambda node, v: v.var(-1, correction=0),
    "reduce_min": lambda node, v: v.amin(-1),
    "reduce_max": lambda node, v: v.amax(-1),
    "neg": _elementwise(torch.neg),
    "add": _elementwise(torch.add),
    "sub": _elementwise(torch.sub),
    "mul": _elementwise(torch.mul),
    "div": _elementwise(torch.div),
    "sigmoid": _elementwise(torch.sigmoid),
    "tanh": _elementwise(torch.tanh),
    "relu": _elementwise(torch.relu),
    "exp": _elementwise(torch.exp),
    "log": _elementwise(torch.log),
    "log1p": _elementwise(torch.log1p),
    "expm1": _elementwise(torch.expm1),
    "sqrt": _elementwise(torch.sqrt),
    "rsqrt": _elementwise(torch.rsqrt),
    "abs": _elementwise(torch.abs),
    "sign": _elementwise(_sign),
    "floor": _elementwise(torch.floor),
    "round": _elementwise(torch.round),
    "stop_gradient": _elementwise(torch.detach),
    "softplus": _elementwise(lambda a: -functional.logsigmoid(-a)),
    "silu": _elementwise(functional.silu),
    "gelu": _elementwise(_gelu),
    "elu": _elementwise(functional.elu),
    "erf": _elementwise(torch.erf),
    "sin": _elementwise(torch.sin),
    "cos": _elementwise(torch.cos),
    "min": _elementwise(torch.minimum),
    "max": _elementwise(torch.maximum),
    "pow": _elementwise(_pow),
    "mod": _elementwise(torch.remainder),
    "lt": _compare(torch.lt),
    "le": _compare(torch.le),
    "gt": _compare(torch.gt),
    "ge": _compare(torch.ge),
    "eq": _compare(torch.eq),
    "ne": _compare(torch.ne),
    "where": _elementwise(lambda a, b, c: torch.where(a != 0, b, c)),
    "clamp": _elementwise(_clamp),
}
