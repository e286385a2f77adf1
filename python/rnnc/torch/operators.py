"""The operators `rnnc::forward` and `rnnc::backward`: what traced and exported graphs hold of calls.

One pair serves all cells: `program` is the text of a Source, which another process can make
programs of. `tensors` are inputs, params and those states that are given, in one list: AOTInductor takes
none that is empty. `given` has a "1" for each state that is there, `wanted` for each input,
param and state whose gradient is wanted, and both a "0" for the others; "" is inference. Results are outputs,
final states and, in training, a reserve, whose size is the bound that is known without preparing.
Eager calls do the same without them, in less time.
"""

import torch

from rnnc.torch import calls
from rnnc.torch.programs import Shape, source_of_text

LIBRARY = torch.library.Library("rnnc", "DEF")
LIBRARY.define(
    "forward(str program, Tensor[] tensors, str given, Tensor? lengths, Tensor? reset, str wanted) "
    "-> Tensor[]",
    tags=torch.Tag.pt2_compliant_tag,
)
LIBRARY.define(
    "backward(str program, Tensor[] tensors, str given, Tensor? lengths, Tensor? reset, str wanted, "
    "Tensor[] outputs, Tensor reserve, Tensor?[] gradients) -> Tensor[]",
    tags=torch.Tag.pt2_compliant_tag,
)


def _flags(wanted):
    return bytes(flag == "1" for flag in wanted) if wanted else None


def _parts(source, tensors, given):
    """Inputs, params, and of each state the tensor that is given, or None."""
    first = len(source.inputs)
    last = first + len(source.params)
    states = iter(tensors[last:])
    return tensors[:first], tensors[first:last], [next(states) if f == "1" else None for f in given]


def _reserve_bytes(compiled, given, lengths, reset, flags, steps, batch):
    given = bytes(flag == "1" for flag in given)
    shape = Shape(1, lengths is not None, reset is not None, given, flags)
    bound = compiled.reserve_bound(shape)
    by_steps = (bound.per_step + bound.per_row * batch) * steps
    return bound.fixed + bound.per_sequence * batch + by_steps


def _forward(program, tensors, given, lengths, reset, wanted):
    source = source_of_text(program)
    inputs, params, states = _parts(source, tensors, given)
    compiled = source.for_tensors(source.real(inputs, params), params)
    call, tensors = calls.checked(compiled, inputs, params, states, lengths, reset)
    flags = _flags(wanted)
    if flags is None:
        with compiled.lock:
            return compiled.calls(call.inference).forward(tensors)
    kind = call.inference._replace(wanted=flags)
    size = _reserve_bytes(compiled, given, lengths, reset, flags, *kind.rows)
    reserve = compiled.bytes(size)
    with compiled.lock:
        return [*compiled.calls(kind).forward(tensors, reserve), reserve]


def _backward(program, tensors, given, lengths, reset, wanted, outputs, reserve, gradients):
    source = source_of_text(program)
    inputs, params, states = _parts(source, tensors, given)
    compiled = source.for_tensors(source.real(inputs, params), params)
    call, tensors = calls.checked(compiled, inputs, params, states, lengths, reset)
    saved = [*(y.contiguous() for y in outputs), *tensors]
    with compiled.lock:
        own = compiled.calls(call.inference._replace(wanted=_flags(wanted)))
        found = own.backward(saved, reserve, gradients)
    return [g for g in found if g is not None]


for _device in ("CPU", "CUDA"):
    LIBRARY.impl("forward", _forward, _device)
    LIBRARY.impl("backward", _backward, _device)


@torch.library.register_fake("rnnc::forward", lib=LIBRARY)
def _(program, tensors, given, lengths, reset, wanted):
    source = source_of_text(program)
    inputs, params, _ = _parts(source, tensors, given)
    x = source.real(inputs, params)
    steps, batch = inputs[0].shape[:2]
    layers = (source.layers,) if source.layers else ()
    state_type = torch.float32 if x.dtype.itemsize == 2 else x.dtype
    results = [x.new_empty((steps, batch, *info.shape)) for info in source.outputs]
    results += [
        x.new_empty((*layers, batch, *info.shape), dtype=state_type) for info in source.states
    ]
    if wanted:
        compiled = source.for_tensors(x, params)
        size = _reserve_bytes(compiled, given, lengths, reset, _flags(wanted), steps, batch)
        results.append(x.new_empty((size,), dtype=torch.uint8))
    return results


@torch.library.register_fake("rnnc::backward", lib=LIBRARY)
def _(program, tensors, given, lengths, reset, wanted, outputs, reserve, gradients):
    source = source_of_text(program)
    inputs, params, _ = _parts(source, tensors, given)
    x = source.real(inputs, params)
    layers = (source.layers,) if source.layers else ()
    state_type = torch.float32 if x.dtype.itemsize == 2 else x.dtype
    shapes = [(t.shape, t.dtype) for t in (*inputs, *params)]
    shapes += [((*layers, inputs[0].shape[1], *info.shape), state_type) for info in source.states]
    return [
        x.new_empty(shape, dtype=dtype)
        for (shape, dtype), flag in zip(shapes, wanted)
        if flag == "1"
    ]


def _keep(ctx, inputs, output):
    program, tensors, given, lengths, reset, wanted = inputs
    ctx.program, ctx.given, ctx.wanted = program, given, wanted
    if wanted:
        count = len(source_of_text(program).outputs)
        ctx.save_for_backward(lengths, reset, output[-1], *output[:count], *tensors)


def _gradients(ctx, gradients):
    if not ctx.wanted:
        raise RuntimeError("rnnc::forward: a gradient of a call that wanted none")
    lengths, reset, reserve, *saved = ctx.saved_tensors
    source = source_of_text(ctx.program)
    count, states = source.output_count, len(source.states)
    outputs, tensors = saved[:count], saved[count:]
    found = iter(
        torch.ops.rnnc.backward(
            ctx.program, tensors, ctx.given, lengths, reset, ctx.wanted, outputs, reserve,
            list(gradients[: count + states]),
        )
    )
    results = [next(found) if flag == "1" else None for flag in ctx.wanted]
    others = len(results) - states
    of_states = [g for g, flag in zip(results[others:], ctx.given) if flag == "1"]
    return None, [*results[:others], *of_states], None, None, None, None


torch.library.register_autograd("rnnc::forward", _gradients, setup_context=_keep, lib=LIBRARY)
