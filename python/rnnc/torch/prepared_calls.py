"""The library's calls with tensors: results, gradients, structs whose arguments stay in place."""

import functools
from ctypes import POINTER, addressof, byref, c_uint64, c_void_p, cast
from itertools import count
from operator import itemgetter
from struct import Struct

import torch

from rnnc import _library
from rnnc._library import library

data_ptr = torch.Tensor.data_ptr


def maker(arrays, device):
    """A function that gives contiguous tensors, whose values are not set, of these (size, dtype).

    By what Inductor's graphs allocate with, where this PyTorch has it, which takes less than half the
    time of torch.empty; on a GPU it allocates on the current one.
    """
    sizes = [size for size, _ in arrays]
    strides = [torch.empty(size, device="meta").stride() for size in sizes]
    dtypes = [dtype for _, dtype in arrays]

    def empty(size, stride, dtype):
        return torch.empty_strided(size, stride, dtype=dtype, device=device)

    public = functools.partial(map, empty, sizes, strides, dtypes)
    allocate = getattr(torch._C._dynamo.guards, f"_empty_strided_{device.type}", None)
    if allocate is None:
        return public
    direct = functools.partial(map, allocate, sizes, strides, dtypes)
    if device.type == "cpu":
        return direct
    return lambda: direct() if torch._C._cuda_getDevice() == device.index else public()


class PreparedCalls:
    """The calls of one Shape and number of steps: their arguments stay in place, addresses change.

    Tensors of a call are in one order: inputs, params, states that are given, lengths, reset.
    """

    def __init__(self, compiled, prepared, shape, steps):
        self.compiled, self.prepared, self.shape, self.steps = compiled, prepared, shape, steps
        self.is_stale = False  # what it calls is prepared no more
        self.program, source = prepared.program, compiled.source
        self.handle = self.program.handle
        sizes = self.program.sizes(_library.Shape(**compiled.fields(shape, steps)))
        self.forward_workspace = sizes.forward_workspace
        self.backward_workspace, self.zeros = sizes.backward_workspace, sizes.zeros
        rows, batch = (steps, shape.batch), (shape.batch,)
        outputs = [(rows + info.shape, compiled.dtype) for info in source.outputs]
        states = [
            (compiled.layers + batch + size, compiled.state_dtype) for size in compiled.state_shapes
        ]
        self.make_results = maker(outputs + states, compiled.device)
        self.make_reserve = maker([((sizes.reserve,), torch.uint8)], compiled.device)
        # Where params begin among a call's tensors, given states, and what follows.
        self.first = len(source.inputs)
        self.last = self.first + len(source.params)
        self.end = self.last + sum(shape.given)
        of_inputs = [(i, 0) for i in range(self.first)]
        of_outputs = [(i, 0) for i in range(compiled.outputs)]
        of_states, of_params = compiled.state_places(shape.batch), compiled.param_places
        lists = dict(outputs=of_outputs, final_states=of_states, inputs=of_inputs)
        if any(shape.given):
            lists |= dict(initial_states=places_of_some(of_states, shape.given))
        self.forward_args = CallArguments(_library.ForwardArgs, lists, of_params, shape, steps)
        if shape.wanted is None:
            return
        inputs = [
            (rows + size, dtype) for size, dtype in zip(compiled.input_shapes, compiled.input_types)
        ]
        params = [(info.shape, compiled.param_dtype) for info in source.params]
        arrays = zip([*inputs, *params, *states], shape.wanted)
        self.make_gradients = maker([array for array, flag in arrays if flag], compiled.device)
        by_inputs, by_params = shape.wanted[: self.first], shape.wanted[self.first : self.last]
        by_states = shape.wanted[self.last :]
        lists = dict(outputs=of_outputs, inputs=of_inputs)
        lists |= dict(output_gradients=of_outputs, final_state_gradients=of_states)
        lists |= dict(
            input_gradients=places_of_some(of_inputs, by_inputs),
            param_gradients=places_of_some(of_params, by_params),
        )
        if any(shape.given):
            lists |= dict(initial_state_gradients=places_of_some(of_states, by_states))
        self.backward_args = CallArguments(_library.BackwardArgs, lists, of_params, shape, steps)
        self.backward_args.struct.foreign_reserve = 1
        # Of gradients that were made and a None: those of each of a call's tensors, where some are
        # not wanted.
        by_given = [flag for flag, is_given in zip(by_states, shape.given) if is_given]
        wanted = [*by_inputs, *by_params, *by_given, *[0] * (shape.lengths + shape.resets)]
        numbers = count()
        places = [next(numbers) if flag else -1 for flag in wanted]
        self.spread = itemgetter(*places) if -1 in places else None

    def forward(self, tensors, reserve=None, frozen=False):
        """Outputs, then final states."""
        compiled, own = self.compiled, self.forward_args
        struct, first, last = own.struct, self.first, self.last
        if compiled.stream is not None:
            struct.stream = compiled.enter(self.prepared)
        results = list(self.make_results())
        addresses = list(map(data_ptr, tensors))
        params = addresses[first:last]
        if params != own.params:
            own.set_params(params)
        own.set(*map(data_ptr, results), *addresses[:first], *addresses[last : self.end])
        if len(addresses) > self.end:
            self._set_masks(struct, addresses)
        if reserve is not None:
            struct.reserve, struct.reserve_bytes = reserve.data_ptr(), reserve.numel()
        if frozen:
            struct.reuse_params = compiled.is_packed(tensors[first:last], params)
        else:
            struct.reuse_params, compiled.packed = 0, None
        workspace = None
        if own.workspace != compiled.workspaces or compiled.is_captured:
            workspace = self._set_workspace(own, self.forward_workspace)
        status = library.rnnc_forward(self.handle, own.address)
        del workspace  # which no other has where it is not kept
        if status != 0:
            _library.check(status)
        return results

    def backward(self, saved, reserve, gradients):
        """Of each of a call's tensors its gradient; None where it is not wanted.

        `saved`: outputs, then the call's tensors; `gradients`: of outputs and final states.
        """
        compiled, own = self.compiled, self.backward_args
        struct, outputs = own.struct, self.compiled.outputs
        if compiled.stream is not None:
            struct.stream = compiled.enter(self.prepared)
        made = list(self.make_gradients())
        gradients = [None if g is None else g.contiguous() for g in gradients]
        of_gradients = addresses_of(gradients)
        addresses = list(map(data_ptr, saved))
        params = addresses[outputs + self.first : outputs + self.last]
        if params != own.params:
            own.set_params(params)
        own.set(*addresses[: outputs + self.first], *of_gradients, *map(data_ptr, made))
        if len(addresses) > outputs + self.end:
            self._set_masks(struct, addresses)
        struct.reserve, struct.reserve_bytes = reserve.data_ptr(), reserve.numel()
        compiled.packed = None
        # Which gradients there are differs from call to call.
        zeros = self.zeros if 0 in of_gradients[:outputs] else 0
        size, workspace = self.backward_workspace + zeros, None
        if own.workspace != compiled.workspaces or size > own.workspace_bytes or compiled.is_captured:
            workspace = self._set_workspace(own, size)
        status = library.rnnc_backward(self.handle, own.address)
        del workspace
        if status != 0:
            _library.check(status)
        return made if self.spread is None else self.spread([*made, None])

    def _set_masks(self, struct, addresses):
        if self.shape.lengths:
            struct.lengths = addresses[-2 if self.shape.resets else -1]
        if self.shape.resets:
            struct.reset = addresses[-1]

    def _set_workspace(self, own, size):
        """The tensor in which it is."""
        compiled = self.compiled
        workspace = compiled.scratch(size)
        own.workspace = compiled.workspaces if workspace is compiled.workspace else None
        own.struct.workspace = workspace.data_ptr()
        own.struct.workspace_bytes = own.workspace_bytes = workspace.numel()
        return workspace


def addresses_of(tensors):
    return [0 if t is None else t.data_ptr() for t in tensors]


def places_of_some(places, flags):
    """`places` in tensors of which those with a flag are there; None: of what lies in another."""
    numbers = dict(zip([i for i, flag in enumerate(flags) if flag], count()))
    return [(numbers[i], offset) if i in numbers else None for i, offset in places]


def pack_parts(pack, places, *addresses):
    """`pack` of the arrays that lie in tensors: in which, and how far in."""
    pack(*[addresses[i] and addresses[i] + offset for i, offset in places])


class CallArguments:
    """A struct of the library's whose lists of addresses lie behind one another."""

    def __init__(self, kind, lists, params, shape, steps):
        """`lists`: in which of a list's tensors each array lies, and how far in, None where there is
        none; behind them `params`, whose addresses are set apart."""
        self.struct = kind(steps=steps, batch=shape.batch)
        self.places, layout, tensors = [], "", 0
        for places in lists.values():
            layout += "".join("8x" if place is None else "Q" for place in places)
            places = [place for place in places if place is not None]
            self.places += [(tensors + i, offset) for i, offset in places]
            tensors += len({i for i, _ in places})
        pack = Struct("=" + layout)
        self.buffer = (c_uint64 * max(pack.size // 8 + len(params), 1))()
        at = addressof(self.buffer)
        for name, places in (lists | (dict(params=params) if params else {})).items():
            setattr(self.struct, name, cast(at, POINTER(c_void_p)))
            at += 8 * len(places)
        self.pack = functools.partial(pack.pack_into, self.buffer, 0)
        # Addresses of the tensors in all lists but the params, of which each may be one array.
        self.set = self.pack
        if len(self.places) > tensors:
            self.set = functools.partial(pack_parts, self.pack, self.places)
        of_params = Struct(f"={len(params)}Q")
        self.pack_params = functools.partial(of_params.pack_into, self.buffer, pack.size)
        self.param_places = params
        self.address = byref(self.struct)
        # What the struct has: params of these addresses, which of the workspaces that the program has
        # kept (None: another, and none at first), and its size.
        self.params, self.workspace, self.workspace_bytes = None, None, 0

    def set_params(self, addresses):
        """Of the tensors of all params."""
        self.pack_params(*[addresses[i] + offset for i, offset in self.param_places])
        self.params = addresses
