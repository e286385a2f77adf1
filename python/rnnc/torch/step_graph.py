"""The step graph of a cell as Python objects, read from its text (`rnnc emit --as graph`)."""

import copy
import re
from dataclasses import dataclass, field
from fractions import Fraction



@dataclass
class Node:
    """One value. `name` is that of the input, param or state that it reads."""

    op: str
    shape: tuple
    operands: tuple = ()
    name: str = ""
    delay: int = 0
    numbers: tuple = ()  # of a constant or vector; begin and end of a slice; an index


@dataclass
class State:
    shape: tuple
    reversed: bool = False
    delay_of: str = None
    init: int = None
    next: int = None


@dataclass
class Graph:
    """One step. Inputs and params are shapes by name, outputs are numbers of nodes."""

    inputs: dict = field(default_factory=dict)
    params: dict = field(default_factory=dict)
    states: dict = field(default_factory=dict)
    outputs: dict = field(default_factory=dict)
    nodes: list = field(default_factory=list)
    invariant: list = field(default_factory=list)  # what depends on params and constants alone
    sweeps: list = field(default_factory=list)  # once over the sequence each: nodes, and states

    def add(self, *arguments, **more):
        self.nodes.append(Node(*arguments, **more))
        return len(self.nodes) - 1


def parse(text, dims, reverse=False):
    """The Graph of a text, with the values of its dims; `reverse` is as in `rnnc.compile`."""
    graph = Graph()
    head, *lines = text.splitlines()
    defaults = re.findall(r"([^\s(]+) (?:=|is) (\d+)", head)
    dims = {**{name: int(value) for name, value in defaults}, **dims}
    for line in lines:
        if declaration := re.fullmatch(DECLARATION, line):
            _declare(graph, dims, *declaration.groups())
        elif node := re.fullmatch(NODE, line):
            graph.nodes.append(_parse_node(dims, *node.groups()))
        elif end := re.fullmatch(END, line):
            kind, name, number = end.groups()
            if kind == "output":
                graph.outputs[name] = int(number)
            else:
                setattr(graph.states[name], kind, int(number))
        elif line != "}":
            raise ValueError(f"{line!r} is no line of a cell's graph")
    _make_delays_states(graph)
    if reverse:
        _reverse(graph)
    _order(graph)
    return graph


DECLARATION = r"  (input|param|state) (\S+): \[(.*?)\](?: int)?( reversed)?(?: delay of (\S+))?"
NODE = r"  %\d+ = (\w+) ?(.*?) : \[(.*)\]"
END = r"  (init|next|output) (\S+) = %(\d+)"


def _declare(graph, dims, kind, name, shape, is_reversed, delay_of):
    shape = _shape(shape, dims)
    if kind == "state":
        graph.states[name] = State(shape, is_reversed is not None, delay_of)
    else:
        (graph.inputs if kind == "input" else graph.params)[name] = shape


def _parse_node(dims, op, rest, shape):
    shape = _shape(shape, dims)
    if op in ("input", "param", "state"):
        name, _, delay = rest.partition(" @ ")
        return Node(op, shape, name=name, delay=int(delay or 0))
    if op in ("const", "vector"):
        return Node(op, shape, numbers=tuple(float(number) for number in rest.split(", ")))
    operands = tuple(int(number) for number in re.findall(r"%(\d+)", rest))
    positions = re.search(r" (?:at|from) (.*)", rest)
    positions = positions[1].split(" to ") if positions else ()
    return Node(op, shape, operands, numbers=tuple(_size(dim, dims) for dim in positions))


def _shape(text, dims):
    return tuple(_size(dim, dims) for dim in text.split(", ") if dim)


def _size(text, dims):
    """`2 * H / N - 1` as a number."""
    total = Fraction(0)
    for term in text.replace(" - ", " + -").split(" + "):
        value = Fraction(-1 if term[0] == "-" else 1)
        for factor in term.lstrip("-").replace(" / ", " * /").split(" * "):
            name = factor.lstrip("/")
            number = int(name) if name.isdecimal() else dims[name]
            value = value / number if factor[0] == "/" else value * number
        total += value
    if total.denominator != 1:
        raise ValueError(f"`{text}` is not a whole number: {total}")
    return int(total)


def _live(graph):
    """The nodes that outputs and states depend on, each behind its operands."""
    left = [*graph.outputs.values()]
    left += [number for state in graph.states.values() for number in (state.init, state.next)]
    left = [(number, False) for number in sorted(left, reverse=True)]
    found = {}
    entered = set()
    while left:
        number, has_operands = left.pop()
        if has_operands:
            found[number] = None
        elif number not in entered:
            entered.add(number)
            left.append((number, True))
            left += [(operand, False) for operand in graph.nodes[number].operands]
    return list(found)


def _make_delays_states(graph):
    """Earlier values become states, as in the library: `h@2` is what h[t-2] reads, `x@1` x[t-1].

    Of what is read further back than `MOST_DELAY_STATES` all of them are one, `h@history`.
    """
    delayed, reach = [], {}
    for node in [graph.nodes[number] for number in sorted(_live(graph))]:
        if node.op in ("input", "state") and node.delay > (node.op == "state"):
            source = (node.op, node.name)
            delayed.append((source, node))
            reach[source] = max(reach.get(source, 0), node.delay)
    histories = {}
    for source, node in delayed:
        if reach[source] > MOST_DELAY_STATES:
            histories.setdefault(source, []).append(node)
        else:
            node.name = _delayed(graph, *source, node.delay)
            node.op, node.delay = "state", 1
    for source, nodes in histories.items():
        _history(graph, *source, nodes, reach[source])


MOST_DELAY_STATES = 8  # as kMostDelayStates in passes/graph/delays.h


def _history(graph, kind, name, nodes, reach):
    """The state with all earlier values that `nodes` read, the earliest first."""
    shape = graph.inputs[name] if kind == "input" else graph.states[name].shape
    entries = reach - (kind == "state")
    own = f"{_bare(name)}@history"
    read = graph.add("state", (entries, *shape), name=own, delay=1)
    newest = graph.add(kind, shape, name=name, delay=int(kind == "state"))
    rest = graph.add("slice", (entries - 1, *shape), (read,), numbers=(1, entries))
    last = graph.add("stack", (1, *shape), (newest,))
    following = graph.add("concat", (entries, *shape), (rest, last))
    if kind == "state":
        of = graph.states[name]
        first = of.init
        if graph.nodes[first].shape:
            first = graph.add("stack", (entries, *shape), (first,) * entries)
        state = State((entries, *shape), of.reversed, of.delay_of or name, first, following)
    else:
        zero = graph.add("const", (), numbers=(0.0,))
        state = State((entries, *shape), init=zero, next=following)
    graph.states[own] = state
    for node in nodes:
        node.op, node.name, node.operands = "index", "", (read,)
        node.numbers, node.delay = (reach - node.delay,), 0


def _delayed(graph, kind, name, delay):
    """The state that is read at t-1 for an input or a state at t-delay."""
    if kind == "state" and delay == 1:
        return name
    own = f"{_bare(name)}@{delay}"
    if own in graph.states:
        return own
    if delay == 1:
        shape = graph.inputs[name]
        zero = graph.add("const", (), numbers=(0.0,))
        state = State(shape, init=zero, next=graph.add("input", shape, name=name))
    else:
        later = _delayed(graph, kind, name, delay - 1)
        state = copy.copy(graph.states[later])
        state.next = graph.add("state", state.shape, name=later, delay=1)
        if kind == "state":
            state.delay_of = state.delay_of or name
    graph.states[own] = state
    return own


def _bare(name):
    """`u` of `u@1`, the state with what an input of a layer or a local was one step ago."""
    return name.split("@")[0]


def _reverse(graph):
    """Everything runs from the last step to the first; outputs keep their steps."""
    for state in graph.states.values():
        state.reversed = True
    for node in list(graph.nodes):
        if node.op == "input":
            node.op = "reversed_input"
    for name, number in graph.outputs.items():
        graph.outputs[name] = graph.add("reverse", graph.nodes[number].shape, (number,))


LEAVES = ("input", "reversed_input", "state")  # of a step


def _order(graph):
    """What is computed once, and the sweeps: a `reverse` comes after all steps of its operand."""
    sweep_of = {}
    for number in _live(graph):
        node = graph.nodes[number]
        if node.op in LEAVES or any(operand in sweep_of for operand in node.operands):
            sweep_of[number] = 0
        else:
            graph.invariant.append(number)
    changed = True
    while changed:
        changed = False
        for number, sweep in sweep_of.items():
            node = graph.nodes[number]
            before = node.operands if node.op != "state" else (graph.states[node.name].next,)
            sweeps = [sweep_of.get(operand, 0) + (node.op == "reverse") for operand in before]
            sweep_of[number] = max(sweeps, default=0)
            changed = changed or sweep_of[number] != sweep
    for sweep in range(max(sweep_of.values(), default=0) + 1):
        nodes = [number for number in sweep_of if sweep_of[number] == sweep]
        states = [n for n, s in graph.states.items() if sweep_of.get(s.next, 0) == sweep]
        graph.sweeps.append((nodes, states))


# ---- What params are for ----


@dataclass
class Kinds:
    """Names of params."""

    recurrent: set = field(default_factory=set)  # matrices that multiply what depends on a state
    gains: set = field(default_factory=set)  # factors of what a norm has scaled


def kinds_of_params(graph):
    """As initial values want to know."""
    kinds, carried = Kinds(), set()
    for number in _live(graph):
        node = graph.nodes[number]
        if node.op == "state" or any(operand in carried for operand in node.operands):
            carried.add(number)
        if node.op not in ("matmul", "mul"):
            continue
        for factor, other in (node.operands, node.operands[::-1]):
            param = _param_of(graph, factor)
            if param is None:
                continue
            if node.op == "matmul" and other in carried:
                kinds.recurrent.add(param.name)
            if node.op == "mul" and len(param.shape) == 1 and _is_scaled(graph, other):
                kinds.gains.add(param.name)
    return kinds


def _param_of(graph, number):
    node = graph.nodes[number]
    while node.op in ("transpose", "broadcast"):
        node = graph.nodes[node.operands[0]]
    return node if node.op == "param" else None


def _is_scaled(graph, number):
    """Divided by a root of a mean or variance."""
    node = graph.nodes[number]
    if node.op not in ("mul", "div"):
        return False
    scale = graph.nodes[node.operands[1]]
    while scale.op == "broadcast":
        scale = graph.nodes[scale.operands[0]]
    if scale.op != ("rsqrt" if node.op == "mul" else "sqrt"):
        return False
    left = list(scale.operands)
    while left:
        node = graph.nodes[left.pop()]
        if node.op in ("mean", "var"):
            return True
        if node.op in ("add", "max", "broadcast"):
            left += node.operands
    return False
