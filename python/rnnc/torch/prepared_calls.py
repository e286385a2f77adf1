"""The library's calls with tensors: results, gradients, structs whose arguments stay in place."""

import functools
import math
from ctypes import POINTER, addressof, byref, c_uint64, c_void_p, cast
from struct import Struct

import torch

from rnnc import _library

data_ptr = torch.Tensor.data_ptr
SMALL_GRADIENT = 1 << 16  # bytes, at most
LEAST_GROUP = 4  # tensors that take less time as parts of one
ALIGNMENT = 64  # of parts, as of what PyTorch allocates


class PreparedCalls:
    """The calls of one Shape and number of steps: their arguments stay in place, addresses change."""

    def __init__(self, compiled, prepared, shape, steps):
        self.compiled, self.prepared, self.shape, self.steps = compiled, prepared, shape, steps
        self.program = prepared.program
        self.sizes = self.program.sizes(_library.Shape(**compiled.fields(shape, steps)))
        rows, batch = (steps, shape.batch), (shape.batch,)
        shapes = [rows + info.shape for info in compiled.source.outputs]
        self.outputs = len(shapes)
        self.state_shapes = [compiled.layers + batch + shape for shape in compiled.state_shapes]
        self.reserve = self._maker((self.sizes.reserve,), torch.uint8)
        self.results = [self._maker(size, compiled.dtype) for size in shapes]
        self.results += [self._maker(size, compiled.state_dtype) for size in self.state_shapes]
        program = compiled.program
        inputs, params = len(program.inputs), len(program.params)
        outputs, states = len(program.outputs), len(program.states)
        self.is_given = any(shape.given)
        # What each call sets anew comes first, states that are seldom given and params last.
        lists = dict(inputs=inputs, outputs=outputs, final_states=states)
        lists |= dict(initial_states=states, params=params)
        self.forward_args = _Arguments(_library.ForwardArgs, lists, shape, steps)
        self.backward_args = None
        if shape.wanted is not None:
            lists = dict(inputs=inputs, outputs=outputs, output_gradients=outputs)
            lists |= dict(final_state_gradients=states, param_gradients=params)
            lists |= dict(input_gradients=inputs, initial_state_gradients=states, params=params)
            self.backward_args = _Arguments(_library.BackwardArgs, lists, shape, steps)
            self.backward_args.struct.foreign_reserve = 1
            self._make_gradient_makers(rows)

    def _maker(self, size, dtype):
        """Of empty tensors. To make one like another takes less time than to say of which kind it is."""
        device = self.compiled.device
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            # That other one would be in the CUDA graph's memory.
            return functools.partial(torch.empty, size, dtype=dtype, device=device)
        return functools.partial(torch.empty_like, _one(dtype, device).expand(size))

    def _make_gradient_makers(self, rows):
        """Of inputs, params and states; None of those that are not wanted."""
        compiled, wanted = self.compiled, iter(self.shape.wanted)
        self.input_gradients = [
            self._maker(rows + size, dtype) if next(wanted) else None
            for size, dtype in zip(compiled.input_shapes, compiled.input_types)
        ]
        shapes = [info.shape for info in compiled.source.params]
        flags = [next(wanted) for _ in shapes]
        make = functools.partial(self._maker, dtype=compiled.param_dtype)
        itemsize = compiled.param_dtype.itemsize
        self.param_gradients = _ParamGradients(shapes, flags, itemsize, make, compiled.param_offsets)
        self.state_gradients = [
            self._maker(size, compiled.state_dtype) if next(wanted) else None
            for size in self.state_shapes
        ]

    def forward(self, arguments, reserve=None, frozen=False):
        """Outputs, then final states."""
        a, compiled = arguments, self.compiled
        own = self.forward_args
        struct = own.struct
        if compiled.stream is not None:
            struct.stream = compiled.enter(self.prepared)
        results = [make() for make in self.results]
        addresses = [*map(data_ptr, a.inputs), *map(data_ptr, results)]
        if compiled.source.layers > 1:
            finals = compiled.state_addresses(results[self.outputs :], self.shape.batch)
            addresses[len(a.inputs) + self.outputs :] = finals
        if self.is_given:
            addresses += compiled.state_addresses(a.states, self.shape.batch)
        own.set(addresses, a.addresses)
        if reserve is not None:
            struct.reserve, struct.reserve_bytes = reserve.data_ptr(), reserve.numel()
        if frozen:
            struct.reuse_params = compiled.is_packed(a)
        elif compiled.packed is not None:
            struct.reuse_params, compiled.packed = 0, None
        self._call(_library.library.rnnc_forward, own, a, self.sizes.forward_workspace)
        return results

    def backward(self, arguments, outputs, reserve, gradients):
        """Gradients of inputs, params and states; None of those that are not wanted."""
        a, compiled = arguments, self.compiled
        own = self.backward_args
        struct = own.struct
        if compiled.stream is not None:
            struct.stream = compiled.enter(self.prepared)
        gradients = [None if g is None else g.contiguous() for g in gradients]
        of_outputs = _addresses(gradients[: self.outputs])
        inputs = [None if make is None else make() for make in self.input_gradients]
        params, of_params = self.param_gradients()
        states = [None if make is None else make() for make in self.state_gradients]
        own.set(
            [
                *map(data_ptr, a.inputs),
                *map(data_ptr, outputs),
                *of_outputs,
                *compiled.state_addresses(gradients[self.outputs :], self.shape.batch),
                *of_params,
                *_addresses(inputs),
                *compiled.state_addresses(states, self.shape.batch),
            ],
            a.addresses,
        )
        struct.reserve, struct.reserve_bytes = reserve.data_ptr(), reserve.numel()
        size = self.sizes.backward_workspace
        if 0 in of_outputs:
            size += self.sizes.zeros
        compiled.packed = None
        self._call(_library.library.rnnc_backward, own, a, size)
        return [*inputs, *params, *states]

    def _call(self, function, own, arguments, workspace_bytes):
        compiled, struct = self.compiled, own.struct
        workspace = compiled.scratch(workspace_bytes)
        is_kept = workspace is compiled.workspace
        if not is_kept or own.workspace != compiled.workspaces:
            struct.workspace, struct.workspace_bytes = workspace.data_ptr(), workspace.numel()
            own.workspace = compiled.workspaces if is_kept else 0
        if arguments.lengths is not None:
            struct.lengths = arguments.lengths.data_ptr()
        if arguments.reset is not None:
            struct.reset = arguments.reset.data_ptr()
        status = function(self.program.handle, own.address)
        if status != 0:
            _library.check(status)


class _ParamGradients:
    """Makes the gradients of a Source's params that are wanted.

    Small ones whose rows are alike lie behind one another in one allocation, of which each is a part
    that PyTorch takes for a tensor of its own: of eight that takes half the time.
    """

    def __init__(self, shapes, wanted, itemsize, make, offsets):
        """`offsets`: of the program's params in each tensor, in bytes."""
        sizes = [math.prod(shape) * itemsize for shape in shapes]
        alike = {}
        for i, (shape, size) in enumerate(zip(shapes, sizes)):
            if wanted[i]:
                is_part = shape and size <= SMALL_GRADIENT and size % ALIGNMENT == 0
                key = shape[1:] if is_part else None
                alike.setdefault(key, []).append(i)
        groups = []
        for key, members in alike.items():
            is_one = key is not None and len(members) >= LEAST_GROUP
            groups += [members] if is_one else [[i] for i in members]
        self.groups, at, position = [], {}, {}
        for group, members in enumerate(groups):
            offset = 0
            for i in members:
                position[i], at[i] = len(position), (group, offset)
                offset += sizes[i]
            shape, rows = shapes[members[0]], None
            if len(members) > 1:
                rows = [shapes[i][0] for i in members]
                shape = (sum(rows), *shape[1:])
            self.groups.append((make(shape), rows))
        # Where there is none, it is what comes behind them all.
        self.positions = [position.get(i, len(position)) for i in range(len(shapes))]
        self.is_in_order = self.positions == list(range(len(shapes)))
        nowhere = len(self.groups)
        self.places = [
            (at[i][0], at[i][1] + offset) if i in at else (nowhere, 0)
            for i in range(len(shapes))
            for offset in offsets[i]
        ]

    def __call__(self):
        """The tensors, None where none is wanted, and where the program's params have theirs, or 0."""
        tensors, begins = [], []
        for make, rows in self.groups:
            whole = make()
            begins.append(whole.data_ptr())
            if rows is None:
                tensors.append(whole)
            else:
                tensors += torch.unsafe_split_with_sizes(whole, rows)
        begins.append(0)
        addresses = [begins[group] + offset for group, offset in self.places]
        if not self.is_in_order:
            tensors.append(None)
            tensors = [tensors[position] for position in self.positions]
        return tensors, addresses


@functools.cache
def _one(dtype, device):
    """A number there."""
    return torch.empty((), dtype=dtype, device=device)


def _addresses(tensors):
    return [0 if t is None else t.data_ptr() for t in tensors]


class _Arguments:
    """A struct of the library's whose lists of addresses lie behind one another, the params' last."""

    def __init__(self, kind, lists, shape, steps):
        self.struct = kind(steps=steps, batch=shape.batch)
        counts = list(lists.values())
        self.buffer = (c_uint64 * max(sum(counts), 1))()
        place = addressof(self.buffer)
        for name, count in lists.items():
            setattr(self.struct, name, cast(place, POINTER(c_void_p)))
            place += 8 * count
        self.address = byref(self.struct)
        self.workspace = 0  # which of those that the program has kept the struct has
        self.params, self.params_at = None, 8 * sum(counts[:-1])

    def set(self, addresses, params):
        """The first lists, and the params' unless they are those of the call before."""
        PACKINGS[len(addresses)].pack_into(self.buffer, 0, *addresses)
        if params is not self.params:
            PACKINGS[len(params)].pack_into(self.buffer, self.params_at, *params)
            self.params = params


class _Packings(dict):
    def __missing__(self, count):
        self[count] = Struct(f"{count}Q")
        return self[count]


PACKINGS = _Packings()
