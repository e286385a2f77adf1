"""`Stream`: a cell step by step, with the least work for each call."""

import functools
import os
import threading
import weakref
from operator import itemgetter

import torch

from rnnc import _library
from rnnc.torch import calls
from rnnc.torch.prepared_calls import CallArguments, data_ptr, maker
from rnnc.torch.programs import CurrentStream, version_of

_streams = weakref.WeakSet()


def _forked():
    """What programs have prepared, and threads held locks of, is not there in the child."""
    for stream in list(_streams):
        stream.program, stream.lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forked)


class Stream:
    """Steps of `batch` sequences, one a call: what `Cell.stream` gives.

    Called with a step's input [B, ...] (several: in their order), it gives the output [B, ...] (several:
    a named tuple). States stay within: they are as declared at first, and after `reset`; `states` gives
    copies, and takes some.

    It has a program and packed weights of its own. It is of the tensors that the cell has when it is
    made, and packs them again when PyTorch counts a change in place; after `cell.to`, make another.
    For inference: there are no gradients. A CUDA graph cannot capture it, since each of its replays
    would begin at the same states; it can capture calls of the cell.
    """

    def __init__(self, cell, batch=1):
        self.source, params = cell.whole()
        self.params = [p.detach() for p in params]  # their memory, and how often it has changed
        self.compiled, self.shape = calls.shape_of(
            self.source, self.params, calls.Wish(batch, 1, states=True)
        )
        compiled, rows = self.compiled, (batch,)
        kinds = zip(compiled.input_shapes, compiled.input_types)
        self.expected = [(rows + size, dtype, compiled.device) for size, dtype in kinds]
        outputs = [(rows + info.shape, compiled.dtype) for info in self.source.outputs]
        self.make_outputs = maker(outputs, compiled.device)
        self.result = itemgetter(0) if len(outputs) == 1 else self.source.make_outputs
        # Two by turns: a call reads the ones and writes the others.
        states = [
            (compiled.layers + rows + size, compiled.state_dtype) for size in compiled.state_shapes
        ]
        make_states = maker(states, compiled.device)
        self.sets = [list(make_states()) for _ in range(2)]
        self.lock = threading.Lock()
        self._prepare()
        self.reset()
        _streams.add(self)

    def _prepare(self):
        compiled, shape = self.compiled, self.shape
        fields = compiled.fields(shape, 1)
        self.program = compiled.program.again()
        self.program.prepare(**fields)
        self.handle = self.program.handle
        size = self.program.sizes(_library.Shape(**fields)).forward_workspace
        self.workspace = compiled.bytes(size)
        states = compiled.state_places(shape.batch)
        lists = dict(
            inputs=[(i, 0) for i in range(len(self.expected))],
            outputs=[(i, 0) for i in range(len(self.source.outputs))],
            final_states=states,
        )
        make = functools.partial(CallArguments, _library.ForwardArgs)
        first = make(lists, compiled.param_places, shape, 1)
        later = make(lists | dict(initial_states=states), compiled.param_places, shape, 1)
        for arguments in (first, later):
            struct = arguments.struct
            struct.workspace, struct.workspace_bytes = data_ptr(self.workspace), size
            arguments.set_params(list(map(data_ptr, self.params)))
        one, other = ([data_ptr(state) for state in states] for states in self.sets)
        # By which set has the states; the last: none.
        self.turns = [(later, other + one), (later, one + other), (first, one)]
        self.versions = None
        self.current = None if compiled.stream is None else CurrentStream(compiled.device)

    def reset(self):
        """The next step begins with the states that the cell declares."""
        self.at = -1

    @property
    def states(self):
        """A named tuple of copies; None where the next step begins with what the cell declares."""
        if self.at < 0:
            return None
        return self.source.types["states"](*[state.clone() for state in self.sets[self.at]])

    @states.setter
    def states(self, states):
        own = self.sets[0]
        if [tuple(s.shape) for s in states] != [tuple(s.shape) for s in own]:
            wanted = ", ".join(f"{i.name} {list(s.shape)}" for i, s in zip(self.source.states, own))
            raise ValueError(f"the states are {wanted}")
        for to, state in zip(own, states):
            to.copy_(state)
        self.at = 0

    def __call__(self, *inputs):
        fits = len(inputs) == len(self.expected)
        for x, (shape, dtype, device) in zip(inputs, self.expected):
            is_dense = type(x) is torch.Tensor and x.is_contiguous() and not x.requires_grad
            fits = fits and is_dense and x.shape == shape and x.dtype is dtype and x.device == device
        if not fits:
            inputs = self._fitted(inputs)
        outputs = list(self.make_outputs())
        with self.lock:
            if self.program is None:
                self._prepare()
            arguments, states = self.turns[self.at]
            struct = arguments.struct
            if self.current is not None:
                struct.stream = self._enter()
            versions = sum(map(version_of, self.params))  # each only grows
            struct.reuse_params = versions == self.versions
            self.versions = None
            arguments.pack(*map(data_ptr, inputs), *map(data_ptr, outputs), *states)
            status = _library.library.rnnc_forward(self.handle, arguments.address)
            if status != 0:
                _library.check(status)
            self.versions = versions
            self.at = 1 if self.at == 0 else 0
        return self.result(outputs)

    def _enter(self):
        stream, _ = self.current.enter()
        if self.current.is_captured:
            raise RuntimeError(
                "a CUDA graph is being captured, and each of its replays would begin a Stream's step at "
                "the same states: capture calls of the cell, which take states"
            )
        return stream

    def _fitted(self, inputs):
        """Inputs as they are read, or an error that says what is wrong with them."""
        tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
        if torch.is_grad_enabled() and any([x.requires_grad for x in tensors]):
            raise RuntimeError("a Stream has no gradients: call it within torch.no_grad()")
        shapes = [shape for shape, _, _ in self.expected]
        if len(tensors) != len(shapes) or [x.shape for x in inputs] != shapes:
            found = ", ".join(str(list(x.shape)) for x in tensors)
            wanted = ", ".join(str(list(shape)) for shape in shapes)
            raise ValueError(f"a step of this Stream takes tensors of shape {wanted}, not {found}")
        with_steps = [x.unsqueeze(0) for x in inputs]
        _, tensors = calls.checked(self.compiled, with_steps, self.params, None, None, None)
        return [x.squeeze(0) for x in tensors[: len(inputs)]]
