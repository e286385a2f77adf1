"""Calls of a Source on tensors: by the library, as an operator of a traced graph, or by the reference."""

import warnings
from operator import is_

import torch
from torch.autograd import forward_ad

from rnnc.torch.programs import DEVICES, TYPES, Shape


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
    """Outputs and final states, two lists; inputs are [T, B, ...], states None, a list or by name.

    Within torch.autocast, inputs of a GPU are of its type, and params are rounded as they are read; the
    CPU computes in float32. A ValueError names all that does not fit, before anything runs.
    """
    result_type = None
    if inputs and isinstance(inputs[0], torch.Tensor):
        inputs, params, states, result_type = _autocast(inputs, params, states)
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0:
        outputs, finals = _traced(source, inputs, params, states, lengths, reset)
    else:
        outputs, finals = _eager(source, inputs, params, states, lengths, reset, frozen)
    if result_type is not None:
        outputs = [y.to(result_type) for y in outputs]
    return outputs, finals


def _autocast(inputs, params, states):
    """All as autocast wants it, and the type of outputs (None: as they are)."""
    x = inputs[0]
    kind = x.device.type
    if kind not in DEVICES or not torch.is_autocast_enabled(kind) or x.dtype == torch.float64:
        return inputs, params, states, None
    result = torch.get_autocast_dtype(kind)
    dtype = result if kind == "cuda" else torch.float32
    inputs = [x.to(dtype) for x in inputs]
    params = [p if p.dtype == torch.float32 else p.to(dtype) for p in params]
    if isinstance(states, dict):
        states = {name: state.float() for name, state in states.items()}
    elif states is not None:
        states = [None if state is None else state.float() for state in states]
    return inputs, params, states, result


# ---- What fits ----


class Arguments:
    """The tensors of a call, checked. A ValueError names all that does not fit."""

    def __init__(self, compiled, inputs, params, states, lengths, reset):
        self.compiled, self.problems = compiled, []
        if len(inputs) != len(compiled.source.inputs):
            names = ", ".join(info.name for info in compiled.source.inputs)
            raise ValueError(f"{len(inputs)} inputs, expected {len(compiled.source.inputs)}: {names}")
        steps, batch = inputs[0].shape[:2] if inputs[0].dim() >= 2 else (0, 0)
        rows = (steps, batch)
        self.steps, self.batch = rows
        self.inputs = [
            self._check("input", info.name, x, (*rows, *info.shape), compiled.dtype)
            for info, x in zip(compiled.source.inputs, inputs)
        ]
        self.params = [
            self._check("param", info.name, p, info.shape, compiled.param_dtype)
            for info, p in zip(compiled.source.params, params)
        ]
        self.states = self._states(states)
        self.lengths = self._numbers("lengths", lengths, (batch,), torch.int32)
        self.reset = self._numbers("reset", reset, rows, torch.uint8)
        if self.problems:
            raise ValueError("; ".join(self.problems))

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
        layers = (compiled.source.layers,) if compiled.source.layers else ()
        return [
            None
            if given.get(info.name) is None
            else self._check(
                "state",
                info.name,
                given[info.name],
                (*layers, self.batch, *info.shape),
                compiled.state_dtype,
            )
            for info in infos
        ]

    def _numbers(self, what, given, shape, dtype):
        if given is None:
            return None
        tensor = torch.as_tensor(given, device=self.compiled.device)
        if tensor.shape != shape:
            self.problems.append(f"{what} has shape {list(tensor.shape)}, expected {list(shape)}")
        return tensor.to(dtype).contiguous()


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
    reason = _reason(inputs)
    if reason is not None:
        return by_reference(source, inputs, params, states, lengths, reset, reason)
    arguments = _arguments(source, inputs, params, states, lengths, reset)
    states = arguments.states
    given = [s for s in states if s is not None]
    if torch.is_grad_enabled():
        tensors = [*arguments.inputs, *arguments.params]
        wanted = bytes([t.requires_grad for t in tensors])
        wanted += bytes([s is not None and s.requires_grad for s in states])
        if any(wanted):
            if frozen and any(p.requires_grad for p in arguments.params):
                raise RuntimeError(
                    "the weights are frozen: call within torch.no_grad(), or train after "
                    "`with rnnc.torch.frozen(…)` has ended"
                )
            results = _Gradients.apply(arguments, wanted, *tensors, *given)
            count = len(arguments.compiled.source.outputs)
            return list(results[:count]), list(results[count:])
    results = forward(arguments, None, None, frozen)
    count = len(arguments.compiled.source.outputs)
    return results[:count], results[count:]


def _reason(inputs):
    """Why the reference has to run a call."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "a transform of torch.func"
    if forward_ad._current_level >= 0:
        return "forward-mode differentiation"
    if inputs and isinstance(inputs[0], torch.Tensor) and inputs[0].device.type not in DEVICES:
        return f"a device of type {inputs[0].device.type}"
    return None


def by_reference(source, inputs, params, states, lengths, reset, reason=None):
    from rnnc.torch import reference

    if reason is not None:
        warn(reason)
    return reference.run_source(source, inputs, params, states, lengths, reset)


def _arguments(source, inputs, params, states, lengths, reset):
    first = inputs[0] if inputs else None
    if not isinstance(first, torch.Tensor):
        names = ", ".join(info.name for info in source.inputs)
        raise ValueError(f"{len(inputs)} inputs, expected {len(source.inputs)} tensors: {names}")
    return Arguments(source.for_tensors(first, params), inputs, params, states, lengths, reset)


def _shape(arguments, wanted):
    given = bytes([s is not None for s in arguments.states])
    return Shape(
        arguments.batch, arguments.lengths is not None, arguments.reset is not None, given, wanted
    )


def forward(arguments, wanted, reserve_bytes=None, frozen=False):
    """Outputs, final states and, in training, the reserve."""
    a, compiled = arguments, arguments.compiled
    with compiled.lock:
        calls = compiled.calls(_shape(a, wanted), a.steps)
        reserve = None
        if wanted is not None:
            reserve = compiled.reserve(max(calls.sizes.reserve, reserve_bytes or 0))
        results = calls.forward(a.inputs, a.params, a.states, a.lengths, a.reset, reserve, frozen)
    return results if reserve is None else [*results, reserve]


def backward(arguments, wanted, outputs, reserve, gradients):
    """The wanted gradients, of inputs, params and states."""
    a, compiled = arguments, arguments.compiled
    with compiled.lock:
        calls = compiled.calls(_shape(a, wanted), a.steps)
        return calls.backward(a.inputs, a.params, outputs, a.lengths, a.reset, reserve, gradients)


class _Gradients(torch.autograd.Function):
    """A call whose backward call the library makes. Its tensors: inputs, params, given states."""

    @staticmethod
    def forward(ctx, arguments, wanted, *tensors):
        *results, reserve = forward(arguments, wanted)
        outputs = results[: len(arguments.compiled.source.outputs)]
        ctx.arguments, ctx.wanted = arguments, wanted
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(reserve, *outputs, *tensors)
        return tuple(results)

    @staticmethod
    def backward(ctx, *gradients):
        # What a call was given and gave is checked for changes in place.
        reserve, *saved = ctx.saved_tensors
        arguments, wanted = ctx.arguments, ctx.wanted
        count = len(arguments.compiled.source.outputs)
        if torch.is_grad_enabled():
            found = _differentiable(arguments, wanted, saved[count:], gradients)
        else:
            found = backward(arguments, wanted, saved[:count], reserve, gradients)
        found = iter(found)
        results = [next(found) if flag else None for flag in wanted]
        given = [True] * (len(arguments.inputs) + len(arguments.params))
        given += [s is not None for s in arguments.states]
        return (None, None, *(r for r, is_given in zip(results, given) if is_given))


def _differentiable(arguments, wanted, tensors, gradients):
    """The wanted gradients as functions of all that they depend on."""
    a = arguments
    first, last = len(a.inputs), len(a.inputs) + len(a.params)
    given = iter(tensors[last:])
    states = [None if s is None else next(given) for s in a.states]
    outputs, finals = by_reference(
        a.compiled.source, tensors[:first], tensors[first:last], states, a.lengths, a.reset,
        "a second derivative",
    )
    flags = [*wanted[:last], *(f for f, s in zip(wanted[last:], a.states) if s is not None)]
    by = [t for t, flag in zip(tensors, flags) if flag]
    pairs = [(r, g) for r, g in zip([*outputs, *finals], gradients) if g is not None and r.requires_grad]
    if not pairs:
        return [torch.zeros_like(t) for t in by]
    results, gradients = zip(*pairs)
    return torch.autograd.grad(
        results, by, gradients, create_graph=True, allow_unused=True, materialize_grads=True
    )


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


def prepare(
    source, params, batch, steps, training, states, lengths, reset, input_gradients, state_gradients
):
    """What Cell.prepare says."""
    x = params[0].new_empty(0) if params else torch.empty(0)
    (x,), params, _, _ = _autocast([x], params, None)
    compiled = source.for_tensors(x, params)
    given = bytes([bool(states)] * len(source.states))
    wanted = None
    if training:
        wanted = bytes([bool(input_gradients)] * len(source.inputs))
        wanted += bytes([p.requires_grad for p in params])
        wanted += bytes([bool(state_gradients)] * len(source.states))
    shape = Shape(batch, bool(lengths), bool(reset), given, wanted)
    with compiled.lock:
        compiled.calls(shape, steps)
