"""Calls of a Source on tensors: by the library, as an operator of a traced graph, or by the reference."""

import functools
import warnings
from typing import NamedTuple, Optional

import torch
from torch.autograd import forward_ad

from rnnc.program import behind
from rnnc.torch.eager import run_source
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
        warnings.warn(words, ReferenceWarning, stacklevel=4)
        _warned.add(reason)


def call(
    source, inputs, params, states=None, lengths=None, reset=None, frozen=False, is_cast=False
):
    """Outputs, then final states; inputs are [T, B, ...], states None, a sequence or by name.

    Within torch.autocast, inputs of a GPU are of its type, and params are rounded as they are read; the
    CPU computes in float32. A ValueError names all that does not fit, before anything runs.
    """
    if is_compiling():
        return _with_autocast(_traced, source, inputs, params, states, lengths, reset)
    if has_autocast() and not is_cast:
        run = functools.partial(call, frozen=frozen, is_cast=True)
        return _with_autocast(run, source, inputs, params, states, lengths, reset)
    form, tensors = 0, [*inputs, *params]
    if states is not None:
        form = 1
        tensors += states  # names, which are like no tensors, of those that are given by name
    if lengths is not None:
        form += 2
        tensors.append(lengths)
    if reset is not None:
        form += 4
        tensors.append(reset)
    # Modes and transforms change the dispatch keys, which are compared, of all tensors.
    if forward_ad._current_level < 0:
        count, fits, known = source.latest[form]
        if count != len(tensors) or not fits(*tensors):
            known = source.recognized(form, tensors)
        if known is not None:
            for at, convert in known.conversions:
                tensors[at] = convert(tensors[at])
            return known.run(tensors, frozen)
    if modes() > 0:
        return _traced(source, inputs, params, states, lengths, reset)
    if torch.jit.is_tracing():
        raise RuntimeError(
            "rnnc has no TorchScript: use torch.export or torch.compile, or the module of torch.nn with "
            "this one's state_dict"
        )
    if transform() is not None:
        reason = "a transform of torch.func"
    elif forward_ad._current_level >= 0:
        reason = "forward-mode differentiation"
    else:
        own = _fitting(source, inputs, params, states, lengths, reset)
        if isinstance(own, str):
            return by_reference(source, inputs, params, states, lengths, reset, own)
        source.remember(form, tensors, own[0])
        return own[0].run(own[1], frozen)
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
    results, count = run(source, inputs, params, states, lengths, reset), source.output_count
    dtype = torch.get_autocast_dtype(kind)
    return [*(y.to(dtype) for y in results[:count]), *results[count:]]


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


class Call:
    """What a program is to do with tensors that fit: inputs, params, states that are given, lengths and
    reset, in this order."""

    def __init__(self, compiled, inference, training, conversions):
        self.compiled, self.inference = compiled, inference
        self.training = training  # None: no gradient is wanted
        self.conversions = conversions  # by which tensors come to fit: at which place, and a function
        self.ready = self.ready_training = None  # what makes the calls

    def run(self, tensors, frozen=False):
        """Outputs, then final states, with gradients where they are wanted."""
        compiled = self.compiled
        if self.training is not None and is_grad_enabled():
            if frozen and any(map(requires_grad, tensors[compiled.params])):
                raise RuntimeError(
                    "the weights are frozen: call within torch.no_grad(), or train after "
                    "`with rnnc.torch.frozen(…)` has ended"
                )
            return apply(self, *tensors)
        with compiled.lock:
            ready = self.ready
            if ready is None or ready.is_stale:
                ready = self.ready = compiled.calls(self.inference)
            compiled.clock = ready.prepared.used = compiled.clock + 1
            return ready.forward(tensors, None, frozen)

    def for_training(self):
        """What makes its calls, forward and backward."""
        compiled, ready = self.compiled, self.ready_training
        if ready is None or ready.is_stale:
            ready = self.ready_training = compiled.calls(self.training)
        compiled.clock = ready.prepared.used = compiled.clock + 1
        return ready


def checked(compiled, inputs, params, states, lengths, reset):
    """A Call and the tensors for it. A ValueError names all that does not fit."""
    return _Check(compiled).run(inputs, params, states, lengths, reset)


class _Check:
    def __init__(self, compiled):
        self.compiled, self.problems = compiled, []
        self.tensors, self.conversions = [], []
        self.wanted = []  # of inputs, params and states: whether a gradient

    def run(self, inputs, params, states, lengths, reset):
        compiled = self.compiled
        if len(inputs) != len(compiled.source.inputs):
            names = ", ".join(info.name for info in compiled.source.inputs)
            raise ValueError(f"{len(inputs)} inputs, expected {len(compiled.source.inputs)}: {names}")
        first = compiled.source.inputs[0]
        if inputs[0].dim() != 2 + len(first.shape):
            expected = ", ".join(map(str, ("T", "B", *first.shape)))
            shape = list(inputs[0].shape)
            raise ValueError(f"input {first.name} has shape {shape}, expected [{expected}]")
        rows = steps, self.batch = tuple(inputs[0].shape[:2])
        for info, x, kind in zip(compiled.source.inputs, inputs, compiled.input_types):
            convert = _as_int32 if info.integer else None
            self._check("input", info.name, x, (*rows, *info.shape), kind, convert)
        for info, p in zip(compiled.source.params, params):
            self._check("param", info.name, p, info.shape, compiled.param_dtype)
        given = self._states(states)
        if lengths is not None:
            self._lengths(lengths)
        if reset is not None:
            convert = functools.partial(_as_mask, compiled.device)
            self._numbers("reset", reset, rows, convert)
        if self.problems:
            raise ValueError("; ".join(self.problems))
        if 1 not in given:
            given = b""
        kind = Kind(rows, given, None, lengths is not None, reset is not None)
        training = kind._replace(wanted=bytes(self.wanted)) if 1 in self.wanted else None
        return Call(compiled, kind, training, self.conversions), self.tensors

    def _check(self, kind, name, tensor, shape, dtype, convert=None):
        what = f"{kind} {name}"
        if not isinstance(tensor, torch.Tensor):
            self.problems.append(f"{what} is a {type(tensor).__name__}, expected a tensor")
            return
        if tensor.layout != torch.strided:
            self.problems.append(f"{what} is no dense tensor: its layout is {tensor.layout}")
            return
        if is_foreign(tensor):
            self.problems.append(f"{what} is a {type(tensor).__name__}, expected a plain tensor")
            return
        self.wanted.append(tensor.requires_grad)
        if convert is not None:
            tensor = self._converted(tensor, convert)
        if tensor.shape != shape:
            self.problems.append(f"{what} has shape {list(tensor.shape)}, expected {list(shape)}")
        if tensor.dtype != dtype:
            self.problems.append(f"{what} is {tensor.dtype}, expected {dtype}")
        if tensor.device != self.compiled.device:
            self.problems.append(f"{what} is on {tensor.device}, expected {self.compiled.device}")
        self.tensors.append(self._converted(tensor, torch.Tensor.contiguous))

    def _converted(self, tensor, convert):
        """Of the next tensor; what changes it is done again with those that are like it."""
        converted = convert(tensor)
        if converted is not tensor:
            self.conversions.append((len(self.tensors), convert))
        return converted

    def _states(self, given):
        compiled = self.compiled
        infos = compiled.source.states
        if given is None:
            self.wanted += [False] * len(infos)
            return bytes(len(infos))
        if not isinstance(given, dict):
            if len(given) != len(infos):
                self.problems.append(f"{len(given)} states, expected {len(infos)}")
            given = {info.name: state for info, state in zip(infos, given)}
        names = [info.name for info in infos]
        self.problems += [f"there is no state {name!r}" for name in given if name not in names]
        given = self._with_histories(given)
        for info in infos:
            state = given.get(info.name)
            if state is None:
                self.wanted.append(False)
            else:
                shape = (*compiled.layers, self.batch, *info.shape)
                self._check("state", info.name, state, shape, compiled.state_dtype)
        return bytes([given.get(name) is not None for name in names])

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

    def _lengths(self, given):
        dtype, device = torch.as_tensor(given).dtype, self.compiled.device
        if dtype is torch.bool or dtype.is_floating_point or dtype.is_complex:
            self.problems.append(f"lengths are {dtype}, expected integers")
        convert = functools.partial(_as_lengths, device)
        if dtype is not torch.int32 and getattr(given, "device", None) == device:
            convert = _as_int32 if dtype is torch.int64 else torch.Tensor.int  # contiguous then
        self._numbers("lengths", given, (self.batch,), convert)

    def _numbers(self, what, given, shape, convert):
        tensor = self._converted(given, convert)
        if tensor.shape != shape:
            self.problems.append(f"{what} has shape {list(tensor.shape)}, expected {list(shape)}")
        self.tensors.append(tensor)


def _as_int32(x):
    """Of int64, which PyTorch's own indices are: what is out of range stays so."""
    if not isinstance(x, torch.Tensor) or x.dtype != torch.int64:
        return x
    return x.clamp(-1, 2**31 - 1).to(torch.int32)


def _as_lengths(device, given):
    lengths = _as_int32(given if isinstance(given, torch.Tensor) else torch.as_tensor(given))
    if lengths.dtype is not torch.int32 or lengths.device != device:
        return lengths.to(device, torch.int32)
    return lengths.contiguous()


def _as_mask(device, given):
    """Of bytes that are not zero where a sequence begins anew, as those of bool are."""
    mask = given if isinstance(given, torch.Tensor) else torch.as_tensor(given)
    if mask.dtype is not torch.bool and mask.dtype is not torch.uint8:
        mask = mask != 0
    if mask.device != device:
        mask = mask.to(device)
    return mask.contiguous()


def is_foreign(tensor):
    """Whether it is more than memory: a DTensor, a quantised one."""
    kind = type(tensor)
    return (
        kind is not torch.Tensor
        and kind is not torch.nn.Parameter
        and kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    )


# ---- At once ----


def _fitting(source, inputs, params, states, lengths, reset):
    """A Call and the tensors for it; or why there is none, in words or "" where none are needed."""
    x = inputs[0] if inputs else None
    if not isinstance(x, torch.Tensor):
        names = ", ".join(info.name for info in source.inputs)
        found = f"{len(inputs)} inputs" + (f", the first a {type(x).__name__}" if inputs else "")
        raise ValueError(f"{found}, expected {len(source.inputs)} tensors: {names}")
    kind = (params[0] if params else x).device.type
    if kind not in DEVICES:
        return f"a device of type {kind}"
    compiled = source.for_tensors(source.real(inputs, params), params)
    call, tensors = checked(compiled, inputs, params, states, lengths, reset)
    return "" if 0 in call.inference.rows else (call, tensors)


def by_reference(source, inputs, params, states, lengths, reset, reason=""):
    if reason:
        warn(reason)
    outputs, finals = run_source(source, inputs, params, states, lengths, reset)
    return [*outputs, *finals]


def training_forward(call, tensors):
    """Outputs, then final states; and the reserve."""
    with call.compiled.lock:
        ready = call.for_training()
        (reserve,) = ready.make_reserve()
        return ready.forward(tensors, reserve), reserve


class _Gradients(torch.autograd.Function):
    """A Call whose backward call the library makes."""

    @staticmethod
    def forward(ctx, call, *tensors):
        results, reserve = training_forward(call, tensors)
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(reserve, *results[: call.compiled.outputs], *tensors)
        return tuple(results)

    @staticmethod
    def backward(ctx, *gradients):
        # What a call was given and gave is checked for changes in place; and it may lie elsewhere.
        (reserve, *saved), call = ctx.saved_tensors, ctx.call
        if is_grad_enabled():
            return None, *_differentiable(saved, call, gradients)
        with call.compiled.lock:
            return None, *call.for_training().backward(saved, reserve, gradients)


# Without what Function.apply does for transforms of torch.func: there are none here.
apply = super(torch.autograd.Function, _Gradients).apply


def _differentiable(saved, call, gradients):
    """The gradients by all tensors of a call as functions of all that they depend on."""
    compiled, kind = call.compiled, call.training
    source, tensors = compiled.source, saved[compiled.outputs :]
    first, last = compiled.params.start, compiled.params.stop
    following = iter(tensors[last:])
    given = kind.given or bytes(len(source.states))
    states = [next(following) if is_given else None for is_given in given]
    lengths = next(following) if kind.lengths else None
    reset = next(following) if kind.reset else None
    of_given = [flag for flag, is_given in zip(kind.wanted[last:], given) if is_given]
    wanted = [*kind.wanted[:last], *of_given, *[0] * (kind.lengths + kind.reset)]
    results = by_reference(
        source, tensors[:first], tensors[first:last], states, lengths, reset, "a second derivative"
    )
    by = [t for t, flag in zip(tensors, wanted) if flag]
    pairs = [(r, g) for r, g in zip(results, gradients) if g is not None and r.requires_grad]
    found = iter([torch.zeros_like(t) for t in by])
    if pairs:
        results, gradients = zip(*pairs)
        more = dict(create_graph=True, allow_unused=True, materialize_grads=True)
        found = iter(torch.autograd.grad(results, by, gradients, **more))
    return [next(found) if flag else None for flag in wanted]


# ---- In a traced graph ----


def _traced(source, inputs, params, states, lengths, reset):
    if isinstance(states, dict):
        states = [states.get(info.name) for info in source.states]
    if states is None:
        states = [None] * len(source.states)
    lengths, reset = (None if given is None else torch.as_tensor(given) for given in (lengths, reset))
    flags = ""
    if torch.is_grad_enabled():
        flags = "".join("01"[t is not None and t.requires_grad] for t in (*inputs, *params, *states))
    if "1" not in flags:
        flags = ""
    given = "".join("01"[s is not None] for s in states)
    states = [s for s in states if s is not None]
    results = torch.ops.rnnc.forward(
        source.text, [*inputs, *params, *states], given, lengths, reset, flags
    )
    return list(results[: source.output_count + len(source.states)])


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
