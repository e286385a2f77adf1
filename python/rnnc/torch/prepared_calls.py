"""The library's calls with tensors: results, gradients, structs whose arguments stay in place."""

import functools
from ctypes import POINTER, addressof, byref, c_uint64, c_void_p, cast
from struct import Struct

import torch

from rnnc import _library
from rnnc._library import library

data_ptr = torch.Tensor.data_ptr


def maker(size, dtype, device):
    """Of contiguous tensors whose values are not set.

    By what Inductor's graphs allocate with, where this PyTorch has it, which takes less than half the
    time of torch.empty; on a GPU it allocates on the current one.
    """
    strides = torch.empty(size, device="meta").stride()
    public = functools.partial(torch.empty_strided, size, strides, dtype=dtype, device=device)
    allocate = getattr(torch._C._dynamo.guards, f"_empty_strided_{device.type}", None)
    if allocate is None:
        return public
    if device.type == "cpu":
        return functools.partial(allocate, size, strides, dtype)
    return lambda: (
        allocate(size, strides, dtype) if torch._C._cuda_getDevice() == device.index else public()
    )


class PreparedCalls:
    """The calls of one Shape and number of steps: their arguments stay in place, addresses change."""

    def __init__(self, compiled, prepared, shape, steps):
        self.compiled, self.prepared, self.shape, self.steps = compiled, prepared, shape, steps
        self.program = prepared.program
        sizes = self.program.sizes(_library.Shape(**compiled.fields(shape, steps)))
        self.forward_workspace = sizes.forward_workspace
        self.backward_workspace, self.zeros = sizes.backward_workspace, sizes.zeros
        rows, batch = (steps, shape.batch), (shape.batch,)
        make = functools.partial(maker, device=compiled.device)
        outputs = [make(rows + info.shape, compiled.dtype) for info in compiled.source.outputs]
        states = [
            make(compiled.layers + batch + size, compiled.state_dtype)
            for size in compiled.state_shapes
        ]
        self.results = outputs + states
        self.reserve = make((sizes.reserve,), torch.uint8)
        inputs = [(i, 0) for i in range(len(compiled.source.inputs))]
        outputs = [(i, 0) for i in range(compiled.outputs)]
        states, params = compiled.state_places(shape.batch), compiled.param_places
        lists = dict(inputs=inputs, outputs=outputs, final_states=states)
        self.is_given = any(shape.given)
        self.is_complete = not self.is_given or 0 not in shape.given
        if self.is_given:
            lists |= dict(initial_states=states)
        self.forward_args = CallArguments(_library.ForwardArgs, lists, params, shape, steps)
        self.backward_args = None
        if shape.wanted is not None:
            lists = dict(outputs=outputs, inputs=inputs)
            lists |= dict(output_gradients=outputs, final_state_gradients=states)
            lists |= dict(input_gradients=inputs, param_gradients=params)
            if self.is_given:
                lists |= dict(initial_state_gradients=states)
            self.backward_args = CallArguments(_library.BackwardArgs, lists, params, shape, steps)
            self.backward_args.struct.foreign_reserve = 1
            makers = [
                make(rows + size, dtype)
                for size, dtype in zip(compiled.input_shapes, compiled.input_types)
            ]
            makers += [make(info.shape, compiled.param_dtype) for info in compiled.source.params]
            self.places = len(inputs), len(makers)  # where params begin among tensors, and states
            if self.is_given:
                makers += self.results[compiled.outputs :]
            # None of those that are not wanted.
            self.gradients = [make if flag else None for make, flag in zip(makers, shape.wanted)]

    def forward(self, tensors, lengths=None, reset=None, reserve=None, frozen=False):
        """Outputs, then final states. `tensors`: inputs, params, states that are given."""
        inputs, params, states = tensors
        compiled, own, struct = self.compiled, self.forward_args, self.forward_args.struct
        if compiled.stream is not None:
            struct.stream = compiled.enter(self.prepared)
        results = [make() for make in self.results]
        tensors = [*inputs, *results, *states]
        own.set(*(map(data_ptr, tensors) if self.is_complete else addresses_of(tensors)))
        addresses = own.set_params(params)
        if reserve is not None:
            struct.reserve, struct.reserve_bytes = reserve.data_ptr(), reserve.numel()
        if frozen:
            struct.reuse_params = compiled.is_packed(params, addresses)
        else:
            struct.reuse_params, compiled.packed = 0, None
        self._call(library.rnnc_forward, own, self.forward_workspace, lengths, reset)
        return results

    def backward(self, saved, reserve, gradients, lengths, reset):
        """Gradients of inputs, params and given states; None of those that are not wanted.

        `saved`: outputs, inputs, params, and what else follows; `gradients`: of outputs and final states.
        """
        compiled, own = self.compiled, self.backward_args
        struct = own.struct
        if compiled.stream is not None:
            struct.stream = compiled.enter(self.prepared)
        results = [None if make is None else make() for make in self.gradients]
        gradients = [None if g is None else g.contiguous() for g in gradients]
        (first, last), count = self.places, compiled.outputs
        own.set_params(saved[count + first : count + last])
        own.set(*map(data_ptr, saved[: count + first]), *addresses_of(gradients), *addresses_of(results))
        struct.reserve, struct.reserve_bytes = reserve.data_ptr(), reserve.numel()
        size = self.backward_workspace
        if any([g is None for g in gradients[:count]]):
            size += self.zeros
        compiled.packed = None
        self._call(library.rnnc_backward, own, size, lengths, reset)
        if self.is_given and 0 in self.shape.given:
            of_given = [g for g, is_given in zip(results[last:], self.shape.given) if is_given]
            return results[:last] + of_given
        return results

    def _call(self, function, own, workspace_bytes, lengths, reset):
        compiled, struct = self.compiled, own.struct
        workspace = compiled.scratch(workspace_bytes)
        is_kept = workspace is compiled.workspace
        if own.workspace != compiled.workspaces or not is_kept:
            struct.workspace, struct.workspace_bytes = workspace.data_ptr(), workspace.numel()
            own.workspace = compiled.workspaces if is_kept else 0
        if lengths is not None:
            struct.lengths = lengths.data_ptr()
        if reset is not None:
            struct.reset = reset.data_ptr()
        status = function(self.program.handle, own.address)
        if status != 0:
            _library.check(status)


def addresses_of(tensors):
    return [0 if t is None else t.data_ptr() for t in tensors]


def pack_parts(pack, places, *addresses):
    """`pack` of the arrays that lie in tensors: in which, and how far in."""
    pack(*[addresses[i] and addresses[i] + offset for i, offset in places])


class CallArguments:
    """A struct of the library's whose lists of addresses lie behind one another."""

    def __init__(self, kind, lists, params, shape, steps):
        """`lists`: in which of a list's tensors each array lies, and how far in; behind them `params`,
        whose addresses are set apart."""
        self.struct = kind(steps=steps, batch=shape.batch)
        self.places, tensors = [], 0
        for places in lists.values():
            self.places += [(tensors + i, offset) for i, offset in places]
            tensors += len({i for i, _ in places})
        self.buffer = (c_uint64 * max(len(self.places) + len(params), 1))()
        at = addressof(self.buffer)
        for name, places in (lists | (dict(params=params) if params else {})).items():
            setattr(self.struct, name, cast(at, POINTER(c_void_p)))
            at += 8 * len(places)
        self.pack = functools.partial(Struct(f"{len(self.places)}Q").pack_into, self.buffer, 0)
        # Addresses of the tensors in all lists but the params, of which each may be one array.
        self.set = self.pack
        if len(self.places) > tensors:
            self.set = functools.partial(pack_parts, self.pack, self.places)
        start = 8 * len(self.places)
        self.pack_params = functools.partial(Struct(f"{len(params)}Q").pack_into, self.buffer, start)
        self.param_places = params
        self.address = byref(self.struct)
        # What the struct has: params of these addresses, and which of the workspaces that the program
        # has kept.
        self.params, self.workspace = None, 0

    def set_params(self, tensors):
        """Of these tensors; gives their addresses."""
        addresses = list(map(data_ptr, tensors))
        if addresses != self.params:
            self.pack_params(*[addresses[i] + offset for i, offset in self.param_places])
            self.params = addresses
        return addresses
