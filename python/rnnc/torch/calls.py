"""Calls of the library on PyTorch's tensors, and their gradients."""

import torch

import rnnc
from rnnc import _library
from rnnc.program import pointers

TYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
}
NAMES = {dtype: name for name, dtype in TYPES.items()}
RESIDUALS = ("auto", "least", "all")


def _addresses(tensors):
    return pointers([None if t is None else t.data_ptr() for t in tensors])


def _flags(tensors):
    """A byte for each: whether it is there."""
    return bytes(t is not None for t in tensors)


class Prepared:
    """A shape that a program has prepared, and the bytes that calls of so many steps need."""

    def __init__(self, program, steps):
        self.program, self.steps, self.sizes = program, steps, {}


def key_shape(key, steps):
    """The fields of rnnc_shape."""
    batch, lengths, resets, options = key
    return dict(options or (), batch=batch, steps=steps, lengths=lengths, resets=resets)


class Compiled:
    """A program on one of PyTorch's devices, and what it has prepared.

    `options` are those of `rnnc.compile`; `param_dtype`, if it is not `dtype`, is torch.float32.
    """

    def __init__(
        self, source, definition=None, *, device, dtype, param_dtype=None, residuals="auto", **options
    ):
        if dtype not in NAMES:
            names = ", ".join(map(str, NAMES))
            raise ValueError(f"there is no dtype {dtype}: expected one of {names}")
        if residuals not in RESIDUALS:
            raise ValueError(f"residuals: expected one of {', '.join(RESIDUALS)}")
        device = torch.device(device)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        self.device, self.dtype, self.residuals = device, dtype, residuals
        self.param_dtype = param_dtype or dtype
        if self.param_dtype not in (dtype, torch.float32):
            raise ValueError(f"params are {dtype} or torch.float32, not {param_dtype}")
        self.program = rnnc.compile(
            source,
            definition,
            device=str(device),
            dtype=NAMES[dtype],
            f32_params=self.param_dtype != dtype,
            threads=torch.get_num_threads() if device.type == "cpu" else 0,
            **options,
        )
        # By batch size, features and, in training, the wanted gradients. Preparing a shape for other
        # gradients or more steps would spoil what forward calls have kept for their backward calls:
        # each choice of gradients has a program, and so has what grew beyond it.
        self._prepared, self._programs = {}, {}

    def __getstate__(self):
        return {**self.__dict__, "_prepared": {}, "_programs": {}}

    def prepare(self, batch, steps, lengths, resets, options):
        """`options`: None of inference, or the fields of rnnc_shape that training has."""
        key = (batch, lengths, resets, options)
        prepared = self._prepared.get(key)
        if prepared is None or prepared.steps < steps:
            program = self.program
            if options is not None:
                program = self._programs.get(options)
                if program is None or prepared is not None:
                    program = self._programs[options] = self.program.compile_again()
            # Growing lengths seldom have to prepare.
            prepared = Prepared(program, 1 << (max(steps, 1) - 1).bit_length())
            program.prepare(**key_shape(key, prepared.steps))
            self._prepared[key] = prepared
        if steps not in prepared.sizes:
            shape = _library.Shape(**key_shape(key, steps))
            prepared.sizes[steps] = prepared.program.sizes(shape)
        return prepared.program, prepared.sizes[steps]

    def __call__(self, inputs, params, states=None, lengths=None, reset=None):
        """Outputs and final states, tuples; inputs are [T, B, ...]."""
        return Call(self, inputs, params, states, lengths, reset).run()


class Call:
    """The tensors of one call, checked. A ValueError names all that does not fit."""

    def __init__(self, compiled, inputs, params, states, lengths, reset):
        self.compiled, self.program, self.device = compiled, compiled.program, compiled.device
        self.problems = []
        program = self.program
        if len(inputs) != len(program.inputs):
            names = ", ".join(info.name for info in program.inputs)
            raise ValueError(f"{len(inputs)} inputs, expected {len(program.inputs)}: {names}")
        self.steps, self.batch = 0, 0
        if isinstance(inputs[0], torch.Tensor) and inputs[0].dim() >= 2:
            self.steps, self.batch = inputs[0].shape[:2]
        rows = (self.steps, self.batch)
        self.inputs = [
            self._check(f"input {info.name}", x, rows + info.shape, TYPES[info.dtype])
            for info, x in zip(program.inputs, inputs)
        ]
        self.params = [self._check_param(info, p) for info, p in zip(program.params, params)]
        self.states = self._take_states(states)
        self.lengths = self._numbers("lengths", lengths, (self.batch,), torch.int32)
        self.reset = self._numbers("reset", reset, rows, torch.uint8)
        if self.problems:
            raise ValueError("; ".join(self.problems))

    def _check(self, what, tensor, shape, dtype):
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            self.problems.append(f"{what} is no dense tensor")
            return None
        if tensor.shape != shape:
            self.problems.append(f"{what} has shape {list(tensor.shape)}, expected {list(shape)}")
        if tensor.dtype != dtype:
            self.problems.append(f"{what} is {tensor.dtype}, expected {dtype}")
        if tensor.device != self.device:
            self.problems.append(f"{what} is on {tensor.device}, the program on {self.device}")
        return tensor.contiguous()

    def _check_param(self, info, tensor):
        dtype = self.compiled.param_dtype
        if tensor.shape != info.shape or tensor.dtype != dtype or tensor.device != self.device:
            return self._check(f"param {info.name}", tensor, info.shape, dtype)
        return tensor if tensor.is_contiguous() else tensor.contiguous()

    def _take_states(self, given):
        infos = self.program.states
        if given is None:
            return [None] * len(infos)
        if not isinstance(given, dict):
            if len(given) != len(infos):
                self.problems.append(f"{len(given)} states, expected {len(infos)}")
            given = {info.name: state for info, state in zip(infos, given)}
        for name in given:
            if name not in [info.name for info in infos]:
                self.problems.append(f"there is no state {name!r}")
        return [
            self._check(
                f"state {info.name}", given[info.name], (self.batch,) + info.shape, TYPES[info.dtype]
            )
            if given.get(info.name) is not None
            else None
            for info in infos
        ]

    def _numbers(self, what, given, shape, dtype):
        if given is None:
            return None
        tensor = torch.as_tensor(given, device=self.device)
        if tensor.shape != shape:
            self.problems.append(f"{what} has shape {list(tensor.shape)}, expected {list(shape)}")
        return tensor.to(dtype).contiguous()

    def run(self):
        tensors = [*self.inputs, *self.params, *(s for s in self.states if s is not None)]
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            results = _Gradients.apply(self, *tensors)
        else:
            results = self.forward(self.memory(1), None)
        count = len(self.program.outputs)
        return results[:count], results[count:]

    # ---- The library's part ----

    def prepare(self, wanted):
        """For inference (None), or with the wanted gradients of inputs, params and states."""
        options = None
        if wanted is not None:
            names = ("wanted_inputs", "wanted_params", "wanted_initial_states", "given_states")
            options = (
                ("training", 1),
                ("outputs", 1),
                ("residuals", RESIDUALS.index(self.compiled.residuals)),
                *zip(names, (*wanted, _flags(self.states))),
            )
        self.prepared, self.sizes = self.compiled.prepare(
            self.batch, self.steps, self.lengths is not None, self.reset is not None, options
        )

    def memory(self, size):
        return torch.empty(max(size, 1), dtype=torch.uint8, device=self.device)

    def stream(self):
        if self.device.type == "cpu":
            return None
        return torch.cuda.current_stream(self.device).cuda_stream

    def make(self, infos, leading):
        return [
            torch.empty(leading + info.shape, dtype=TYPES[info.dtype], device=self.device)
            for info in infos
        ]

    def common(self):
        return dict(
            steps=self.steps,
            batch=self.batch,
            lengths=None if self.lengths is None else self.lengths.data_ptr(),
            reset=None if self.reset is None else self.reset.data_ptr(),
            stream=self.stream(),
        )

    def forward(self, reserve, wanted):
        """Outputs, then final states. `wanted`: None of inference."""
        self.prepare(wanted)
        if wanted is not None:
            reserve.resize_(self.sizes.reserve)
        workspace = self.memory(self.sizes.forward_workspace)
        outputs = self.make(self.program.outputs, (self.steps, self.batch))
        finals = self.make(self.program.states, (self.batch,))
        self.prepared.forward(
            _library.ForwardArgs(
                inputs=_addresses(self.inputs),
                params=_addresses(self.params),
                outputs=_addresses(outputs),
                initial_states=_addresses(self.states),
                final_states=_addresses(finals),
                workspace=workspace.data_ptr(),
                workspace_bytes=workspace.numel(),
                reserve=None if wanted is None else reserve.data_ptr(),
                reserve_bytes=0 if wanted is None else reserve.numel(),
                **self.common(),
            )
        )
        return (*outputs, *finals)

    def backward(self, reserve, wanted, outputs, gradients):
        """Gradients of inputs, params and states; None where none is wanted."""
        workspace = self.memory(self.sizes.backward_workspace + self.sizes.zeros)
        kept = [*self.inputs, *self.params, *self.states]
        flags = b"".join(wanted)
        results = [torch.empty_like(t) if flag else None for t, flag in zip(kept, flags)]
        ends = (len(self.inputs), len(self.inputs) + len(self.params))
        count = len(self.program.outputs)
        gradients = [None if g is None else g.contiguous() for g in gradients]
        self.prepared.backward(
            _library.BackwardArgs(
                inputs=_addresses(self.inputs),
                params=_addresses(self.params),
                outputs=_addresses(outputs),
                output_gradients=_addresses(gradients[:count]),
                final_state_gradients=_addresses(gradients[count:]),
                input_gradients=_addresses(results[: ends[0]]),
                param_gradients=_addresses(results[ends[0] : ends[1]]),
                initial_state_gradients=_addresses(results[ends[1] :]),
                workspace=workspace.data_ptr(),
                workspace_bytes=workspace.numel(),
                reserve=reserve.data_ptr(),
                reserve_bytes=reserve.numel(),
                **self.common(),
            )
        )
        return results


class _Gradients(torch.autograd.Function):
    """A call whose backward call the library makes. Its tensors: inputs, params, given states."""

    @staticmethod
    def forward(ctx, call, *tensors):
        flags = iter(ctx.needs_input_grad[1:])
        inputs = bytes(next(flags) for _ in call.inputs)
        params = bytes(next(flags) for _ in call.params)
        states = bytes(s is not None and next(flags) for s in call.states)
        ctx.wanted = (inputs, params, states)
        reserve = call.memory(1)
        results = call.forward(reserve, ctx.wanted)
        outputs = results[: len(call.program.outputs)]
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(reserve, *outputs, *tensors)
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *gradients):
        # What a call was given and gave is checked for changes in place.
        reserve, *saved = ctx.saved_tensors
        outputs = saved[: len(ctx.call.program.outputs)]
        results = ctx.call.backward(reserve, ctx.wanted, outputs, gradients)
        given = [True] * (len(ctx.call.inputs) + len(ctx.call.params))
        given += [s is not None for s in ctx.call.states]
        return (None, *(r for r, g in zip(results, given) if g))
