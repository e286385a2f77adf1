"""Calls of a Source on tensors: by the library, as an operator of a traced graph, or by the reference."""

import functools
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import torch
from torch.autograd import forward_ad

from rnnc.program import behind
from rnnc.torch.programs import DEVICES, Shape


# Asked in each call.
modes = torch._C._len_torch_dispatch_stack
transform = torch._C._functorch.peek_interpreter_stack
requires_grad = torch.Tensor.requires_grad.__get__
has_autocast = torch._C._is_any_autocast_enabled
is_grad_enabled = torch.is_grad_enabled
is_compiling = torch.compiler.is_compiling


class ReferenceWarning(UserWarning):
    """What the library has no kernels for runs as PyTorch operations, and slower.

    `warnings.simplefilter("error", rnnc.torch.ReferenceWarning)` makes it an error.
    """


_warned = set()


def warn(reason):
    """Once for each reason."""
    if reason not in _warned:
        words = f"rnnc: {reason}: the cell runs as PyTorch operations (rnnc.torch.reference), and slower"
        warnings.warn(words, ReferenceWarning, stacklevel=5)
        _warned.add(reason)


def call(source, inputs, params, states=None, lengths=None, reset=None, frozen=False):
    """Outputs and final states, two sequences; inputs are [T, B, ...], states None, a list or by name.

    Within torch.autocast, inputs of a GPU are of its type, and params are rounded as they are read; the
    CPU computes in float32. A ValueError names all that does not fit, before anything runs.
    """
    if is_compiling():
        return _with_autocast(_traced, source, inputs, params, states, lengths, reset)
    if has_autocast():
        run = functools.partial(_untraced, frozen=frozen)
        return _with_autocast(run, source, inputs, params, states, lengths, reset)
    return _untraced(source, inputs, params, states, lengths, reset, frozen)


def _untraced(source, inputs, params, states, lengths, reset, frozen):
    # Modes and transforms change the dispatch keys, which are compared, of all tensors.
    if lengths is None and reset is None and forward_ad._current_level < 0:
        known = source.recognized(inputs, params, states)
        if known is not None:
            return _run(known, (inputs, params, states or ()), frozen)
    if modes() > 0:
        return _traced(source, inputs, params, states, lengths, reset)
    if transform() is not None:
        reason = "a transform of torch.func"
    elif forward_ad._current_level >= 0:
        reason = "forward-mode differentiation"
    else:
        return _eager(source, inputs, params, states, lengths, reset, frozen)
    return by_reference(source, inputs, params, states, lengths, reset, reason)


def _with_autocast(run, source, inputs, params, states, lengths, reset):
    """Of all as autocast wants it."""
    x = inputs[0] if inputs else None
    kind = x.device.type if isinstance(x, torch.Tensor) else None
    if kind in DEVICES:
        x = source.real(inputs, params)
    if kind not in DEVICES or not torch.is_autocast_enabled(kind) or x.dtype == torch.float64:
        return run(source, inputs, params, states, lengths, reset)
    inputs, params = _cast(inputs, params)
    if isinstance(states, dict):
        states = {name: state.float() for name, state in states.items()}
    elif states is not None:
        states = [None if state is None else state.float() for state in states]
    outputs, finals = run(source, inputs, params, states, lengths, reset)
    return [y.to(torch.get_autocast_dtype(kind)) for y in outputs], finals


def _cast(inputs, params):
    """Of the types that autocast has them in."""
    kind = inputs[0].device.type
    dtype = torch.get_autocast_dtype(kind) if kind == "cuda" else torch.float32
    params = [p if p.dtype == torch.float32 else p.to(dtype) for p in params]
    return [x.to(dtype) if x.is_floating_point() else x for x in inputs], params


# ---- What fits ----


class Kind(NamedTuple):
    """What decides, beside the program, which of the library's calls is made."""

    rows: tuple  # steps, batch
    given: bytes  # of each state: whether it is; b"": none is
    wanted: Optional[bytes]  # of inputs, params and states: whose gradients; None: inference
    lengths: bool = False
    reset: bool = False


class Call(NamedTuple):
    """What a program is to do, beside the tensors that it reads at once and keeps for gradients."""

    compiled: Any
    inference: Kind
    training: Optional[Kind]  # None: no gradient is wanted
    lengths: Any = None
    reset: Any = None


class Tensors(NamedTuple):
    """Of a call, as they fit a program."""

    inputs: Sequence
    params: Sequence
    states: Sequence  # None, each that is not given; empty: none is


def checked(compiled, inputs, params, states, lengths, reset):
    """A Call and its Tensors. A ValueError names all that does not fit."""
    return _Check(compiled).run(inputs, params, states, lengths, reset)


class _Check:
    def __init__(self, compiled):
        self.compiled, self.problems = compiled, []

    def run(self, inputs, params, states, lengths, reset):
        compiled = self.compiled
        if len(inputs) != len(compiled.source.inputs):
            names = ", ".join(info.name for info in compiled.source.inputs)
            raise ValueError(f"{len(inputs)} inputs, expected {len(compiled.source.inputs)}: {names}")
        steps, batch = inputs[0].shape[:2] if inputs[0].dim() >= 2 else (0, 0)
        rows = self.steps, self.batch = (steps, batch)
        inputs = [
            self._check(
                "input", info.name, _as_int32(x) if info.integer else x, (*rows, *info.shape), kind
            )
            for info, x, kind in zip(compiled.source.inputs, inputs, compiled.input_types)
        ]
        params = [
            self._check("param", info.name, p, info.shape, compiled.param_dtype)
            for info, p in zip(compiled.source.params, params)
        ]
        states = self._states(states)
        lengths = self._numbers("lengths", lengths, (batch,), torch.int32)
        reset = self._numbers("reset", reset, rows, torch.uint8)
        if self.problems:
            raise ValueError("; ".join(self.problems))
        tensors = [*inputs, *params, *states]
        given = bytes([s is not None for s in states])
        wanted = bytes([t is not None and t.requires_grad for t in tensors])
        if 1 not in given:
            states, given = (), b""
        kind = Kind(rows, given, None, lengths is not None, reset is not None)
        training = kind._replace(wanted=wanted) if 1 in wanted else None
        return Call(compiled, kind, training, lengths, reset), Tensors(inputs, params, states)

    def _check(self, kind, name, tensor, shape, dtype):
        what = f"{kind} {name}"
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            self.problems.append(f"{what} is no dense tensor")
            return None
        if is_foreign(tensor):
            self.problems.append(f"{what} is a {type(tensor).__name__}, expected a plain tensor")
            return None
        if tensor.shape != shape:
            self.problems.append(f"{what} has shape {list(tensor.shape)}, expected {list(shape)}")
        if tensor.dtype != dtype:
            self.problems.append(f"{what} is {tensor.dtype}, expected {dtype}")
        if tensor.device != self.compiled.device:
            self.problems.append(f"{what} is on {tensor.device}, expected {self.compiled.device}")
        return tensor if tensor.is_contiguous() else tensor.contiguous()

    def _states(self, given):
        compiled = self.compiled
        infos = compiled.source.states
        if given is None:
            return [None] * len(infos)
        if not isinstance(given, dict):
            if len(given) != len(infos):
                self.problems.append(f"{len(given)} states, expected {len(infos)}")
            given = {info.name: state for info, state in zip(infos, given)}
        names = [info.name for info in infos]
        self.problems += [f"there is no state {name!r}" for name in given if name not in names]
        given = self._with_histories(given)
        return [
            None
            if given.get(info.name) is None
            else self._check(
                "state",
                info.name,
                given[info.name],
                (*compiled.layers, self.batch, *info.shape),
                compiled.state_dtype,
            )
            for info in infos
        ]

    def _with_histories(self, given):
        """A history that is not given has the state that is, at all earlier steps."""
        filled, axis = dict(given), len(self.compiled.layers) + 1
        for info in self.compiled.source.states:
            state = behind(info.name, given)
            is_given = given.get(info.name) is not None
            if is_given or not isinstance(state, torch.Tensor) or state.dim() < axis:
                continue
            sizes = list(state.shape)
            sizes.insert(axis, info.shape[0])
            filled[info.name] = state.unsqueeze(axis).expand(sizes)
        return filled

    def _numbers(self, what, given, shape, dtype):
        if given is None:
            return None
        tensor = torch.as_tensor(given, device=self.compiled.device)
        if tensor.shape != shape:
            self.problems.append(f"{what} has shape {list(tensor.shape)}, expected {list(shape)}")
        return tensor.to(dtype).contiguous()


def _as_int32(x):
    """Of int64, which PyTorch's own indices are: what is out of range stays so."""
    if not isinstance(x, torch.Tensor) or x.dtype != torch.int64:
        return x
    return x.clamp(-1, 2**31 - 1).to(torch.int32)


def is_foreign(tensor):
    """Whether it is more than memory: a DTensor, a quantised one."""
    kind = type(tensor)
    return (
        kind is not torch.Tensor
        and kind is not torch.nn.Parameter
        and kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    )


# ---- At once ----


def _eager(source, inputs, params, states, lengths, reset, frozen):
    """Of tensors that are not recognized."""
    x = inputs[0] if inputs else None
    if not isinstance(x, torch.Tensor):
        names = ", ".join(info.name for info in source.inputs)
        raise ValueError(f"{len(inputs)} inputs, expected {len(source.inputs)} tensors: {names}")
    kind = (params[0] if params else x).device.type
    if kind not in DEVICES:
        reason = f"a device of type {kind}"
        return by_reference(source, inputs, params, states, lengths, reset, reason)
    compiled = source.for_tensors(source.real(inputs, params), params)
    call, tensors = checked(compiled, inputs, params, states, lengths, reset)
    if 0 in call.inference.rows:
        return by_reference(source, inputs, params, states, lengths, reset)
    if lengths is None and reset is None:
        source.remember(call, (*inputs, *params, *(states or ())), tensors)
    return _run(call, tensors, frozen)


def _run(call, tensors, frozen):
    compiled, inference, training, lengths, reset = call
    if training is not None and is_grad_enabled():
        inputs, params, states = tensors
        if frozen and any(map(requires_grad, params)):
            raise RuntimeError(
                "the weights are frozen: call within torch.no_grad(), or train after "
                "`with rnnc.torch.frozen(…)` has ended"
            )
        if inference.given and 0 in inference.given:
            states = [s for s in states if s is not None]
        results = apply(call, tensors, *inputs, *params, *states)
    else:
        with compiled.lock:
            results = compiled.calls(inference).forward(tensors, lengths, reset, None, frozen)
    count = compiled.outputs
    return results[:count], results[count:]


def by_reference(source, inputs, params, states, lengths, reset, reason=None):
    from rnnc.torch.reference import run_source

    if reason is not None:
        warn(reason)
    return run_source(source, inputs, params, states, lengths, reset)


def training_forward(call, tensors, reserve_bytes=None):
    """Outputs, then final states; and the reserve."""
    compiled, _, kind, lengths, reset = call
    with compiled.lock:
        calls = compiled.calls(kind)
        reserve = calls.reserve() if reserve_bytes is None else compiled.bytes(reserve_bytes)
        return calls.forward(tensors, lengths, reset, reserve), reserve


class _Gradients(torch.autograd.Function):
    """A call whose backward call the library makes. `given`: inputs, params, states that are given."""

    @staticmethod
    def forward(ctx, call, tensors, *given):
        results, reserve = training_forward(call, tensors)
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(reserve, *results[: call.compiled.outputs], *given)
        return tuple(results)

    @staticmethod
    def backward(ctx, *gradients):
        # What a call was given and gave is checked for changes in place; and it may lie elsewhere.
        reserve, *saved = ctx.saved_tensors
        if is_grad_enabled():
            return None, None, *_differentiable(saved, ctx.call, gradients)
        compiled, _, kind, lengths, reset = ctx.call
        with compiled.lock:
            calls = compiled.calls(kind)
            return None, None, *calls.backward(saved, reserve, gradients, lengths, reset)


# Without what Function.apply does for transforms of torch.func: there are none here.
apply = super(torch.autograd.Function, _Gradients).apply


def _differentiable(saved, call, gradients):
    """The gradients by all tensors of a call as functions of all that they depend on."""
    compiled, _, kind, lengths, reset = call
    source, given, wanted = compiled.source, kind.given, kind.wanted
    tensors = saved[compiled.outputs :]
    first = len(source.inputs)
    last = first + len(source.params)
    states, of_given = None, iter(tensors[last:])
    if given:
        states = [next(of_given) if is_given else None for is_given in given]
        wanted = wanted[:last] + bytes([f for f, is_given in zip(wanted[last:], given) if is_given])
    reason = "a second derivative"
    outputs, finals = by_reference(
        source, tensors[:first], tensors[first:last], states, lengths, reset, reason
    )
    by = [t for t, flag in zip(tensors, wanted) if flag]
    results = [*outputs, *finals]
    pairs = [(r, g) for r, g in zip(results, gradients) if g is not None and r.requires_grad]
    found = iter([torch.zeros_like(t) for t in by])
    if pairs:
        results, gradients = zip(*pairs)
        more = dict(create_graph=True, allow_unused=True, materialize_grads=True)
        found = iter(torch.autograd.grad(results, by, gradients, **more))
    return [next(found) if flag else None for flag in wanted[: len(tensors)]]


# ---- In a traced graph ----


def _traced(source, inputs, params, states, lengths, reset):
    if isinstance(states, dict):
        states = [states.get(info.name) for info in source.states]
    if states is None:
        states = [None] * len(source.states)
    flags = ""
    if torch.is_grad_enabled():
        flags = "".join("01"[t is not None and t.requires_grad] for t in (*inputs, *params, *states))
    if "1" not in flags:
        flags = ""
    given = "".join("01"[s is not None] for s in states)
    states = [s for s in states if s is not None]
    results = torch.ops.rnnc.forward(
        source.text, list(inputs), list(params), states, given, lengths, reset, flags
    )
    count = len(source.outputs)
    return list(results[:count]), list(results[count : count + len(source.states)])


# ---- Beforehand ----


class Wish(NamedTuple):
    """What calls are to be prepared; see Cell.prepare."""

    batch: int
    steps: int
    training: bool = False
    states: bool = False
    lengths: bool = False
    reset: bool = False
    input_gradients: bool = False
    state_gradients: bool = False


def shape_of(source, params, wish):
    """What they have in common, and the program that makes them."""
    x = params[0].new_empty(0) if params else torch.empty(0)
    if torch.is_autocast_enabled(x.device.type) and x.dtype != torch.float64:
        (x,), params = _cast([x], params)
    given = bytes([bool(wish.states)] * len(source.states))
    wanted = None
    if wish.training:
        wanted = bytes([bool(wish.input_gradients) and not i.integer for i in source.inputs])
        wanted += bytes([p.requires_grad for p in params])
        wanted += bytes([bool(wish.state_gradients)] * len(source.states))
    shape = Shape(wish.batch, bool(wish.lengths), bool(wish.reset), given, wanted)
    return source.for_tensors(x, params), shape


def prepare(source, params, wish):
    compiled, shape = shape_of(source, params, wish)
    with compiled.lock:
        compiled.prepare(shape, wish.steps)


def explain(source, params, wish):
    """An rnnc.Explanation of these calls."""
    compiled, shape = shape_of(source, params, wish)
    return compiled.program.again().explain(**compiled.fields(shape, wish.steps))
