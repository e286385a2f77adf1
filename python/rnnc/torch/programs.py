"""Programs of the library on PyTorch's devices: compiled, prepared and called with tensors' memory."""

import functools
import itertools
import json
import math
import os
import threading
import weakref
from collections import namedtuple
from typing import NamedTuple, Optional

import torch

import rnnc
from rnnc import _library
from rnnc.program import ROLES, Program
from rnnc.torch import memory, step_graph
from rnnc.torch.prepared_calls import PreparedCalls

TYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
}
NAMES = {dtype: name for name, dtype in TYPES.items()}
RESIDUALS = ("auto", "least", "all")
DEVICES = ("cpu", "cuda")  # on others the reference runs
SHAPES = 16  # that a program has prepared at once
KNOWN = 1000  # kinds of tensors and of calls at once
UNKNOWN = -1, None, None  # number of tensors, check, call
FORMS = 8  # of calls: 1, states are given, + 2, lengths, + 4, resets
Guards = getattr(torch._C._dynamo.guards, "TensorGuards", None)
version_of = torch.Tensor._version.__get__
raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # of PyTorch with CUDA
# Bytes, at most. What PyTorch frees on a CPU goes back to the system: with none kept, training an LSTM of
# 512 units, 30 steps, 64 sequences, has 10,000 page faults, 27 of 430 ms (one thread of a Zen 3).
KEPT_WORKSPACE = {"cpu": 64 << 20, "cuda": 1 << 20}


_sources = weakref.WeakSet()


def _forked():
    """What threads held locks of, and programs have prepared, is not there in the child."""
    for source in list(_sources):
        source.reset()


os.register_at_fork(after_in_child=_forked)


ON_GPUS = "spare_multiprocessors", "tune"  # options of rnnc.compile


class Source:
    """What a module computes on any device and in any type, and its programs there.

    `text` is all of it in one string, so that a traced graph can hold it: canonical JSON. It names the
    build of rnnc, so that what PyTorch keeps on disk of graphs, with the sizes of reserves, serves no
    other; a text of another build means the same. `inputs`, `params`, `states` and `outputs` are lists
    of `Array`. `stacked`: of each param tensor how many params of the cell it holds, one behind the
    other. `layers`: each state tensor has those of so many layers as
    its first axis; 0: it is one state.
    """

    def __init__(self, text):
        fields = json.loads(text) | {"build": _library.build()}
        self.text = json.dumps(fields, sort_keys=True)
        self.graph, self.dims = fields["graph"], fields["dims"]
        self.reverse, self.tf32 = fields["reverse"], fields["tf32"]
        self.residuals, self.cache = fields["residuals"], fields["cache"]
        self.spare_multiprocessors = fields.get("spare_multiprocessors", 0)
        self.tune = fields.get("tune", False)
        self.stacked, self.layers = fields["stacked"], fields["layers"]
        for kind in ROLES:
            arrays = [Array(name, tuple(shape), *more) for name, shape, *more in fields[kind]]
            setattr(self, kind, arrays)
        self.param_names = [info.name for info in self.params]
        # Names that Python has no fields for (`h@2`) go by their positions.
        self.types = {
            kind: namedtuple(kind.capitalize(), [a.name for a in getattr(self, kind)], rename=True)
            for kind in ("outputs", "states")
        }
        self.make_outputs, self.make_states = (self.types[k]._make for k in ("outputs", "states"))
        self.output_count = len(self.outputs)
        self._step = None
        self.reset()
        _sources.add(self)

    def reset(self):
        """Without programs."""
        self.compiled = {}
        # Calls that have fitted, and PyTorch's check whether tensors are like theirs: types, dispatch
        # keys, devices, shapes, strides, requires_grad. By form, the first's shape and the number of
        # tensors; the latest by form.
        self.known, self.latest = {}, [UNKNOWN] * FORMS

    def __reduce__(self):
        return Source, (self.text,)

    def on_gpus(self, **options):
        """The same, with these of `ON_GPUS` on GPUs."""
        return Source(json.dumps(json.loads(self.text) | options, sort_keys=True))

    def step(self):
        """Its step graph."""
        if self._step is None:
            self._step = step_graph.parse(self.graph, self.dims, self.reverse)
        return self._step

    def real(self, inputs, params):
        """A tensor of the type that its arrays have: no input of integers."""
        reals = [x for info, x in zip(self.inputs, inputs) if not info.integer]
        return (reals or params or inputs)[0]

    def for_tensors(self, x, params):
        """Its program where the params are; the type of its arrays may be less than theirs."""
        if not params:
            return self.on(x.device, x.dtype, x.dtype)
        device, dtype = params[0].device, params[0].dtype
        is_mixed = dtype is torch.float32 and x.dtype.itemsize == 2 and device.type == "cuda"
        return self.on(device, x.dtype if is_mixed else dtype, dtype)

    def on(self, device, dtype, param_dtype):
        key = device, dtype, param_dtype
        compiled = self.compiled.get(key)
        if compiled is None:
            compiled = self.compiled[key] = Compiled(self, *key)
        return compiled

    def recognized(self, form, tensors):
        """The call, if the tensors are as those of one of this form that has fitted; else None."""
        # Of another type the first may have no shape, or one that is no key.
        if not tensors or type(tensors[0]) is not torch.Tensor:
            return None
        found = self.known.get((form, tensors[0].shape, len(tensors)))
        if found is None or found is self.latest[form] or not found[1](*tensors):
            return None
        self.latest[form] = found
        return found[2]

    def remember(self, form, tensors, call):
        """That this is the call of such tensors."""
        if Guards is None or not all([isinstance(t, torch.Tensor) for t in tensors]):
            return
        if len(self.known) > KNOWN:
            self.known.clear()
        guards = Guards(
            *tensors,
            dynamic_dims_sizes=[list(t.shape) for t in tensors],
            dynamic_dims_strides=[list(t.stride()) for t in tensors],
        )
        self.latest[form] = known = len(tensors), guards.check, call
        self.known[form, tensors[0].shape, len(tensors)] = known

    def results(self, tensors):
        """Outputs and final states as a Cell gives them."""
        count = self.output_count
        states = self.make_states(tensors[count:])
        return tensors[0] if count == 1 else self.make_outputs(tensors[:count]), states


class Array(NamedTuple):
    """A tensor of a call; `shape` is that of one step and one sequence, and of one layer."""

    name: str
    shape: tuple
    integer: bool = False  # of an input


def source_of(
    source,
    definition=None,
    dims=None,
    *,
    device="cpu",
    reverse=False,
    tf32=False,
    residuals="auto",
    cache=None,
    stacked=(1,),
    layers=0,
):
    """A Source of what `rnnc.compile` takes; `device` has to be there. `stacked`, in turn: how many
    params are one tensor."""
    if residuals not in RESIDUALS:
        raise ValueError(f"residuals: expected one of {', '.join(RESIDUALS)}, not {residuals!r}")
    device = torch.device(device)
    options = dict(device=str(device) if device.type in DEVICES else "cpu", reverse=reverse)
    program = rnnc.compile(source, definition, **options, **(dims or {}))
    arrays = {kind: [(a.name, a.shape) for a in getattr(program, kind)] for kind in ROLES}
    arrays["inputs"] = [(a.name, a.shape, a.dtype == "i32") for a in program.inputs]
    of_cell, arrays["params"], counts = arrays["params"], [], []
    turns = itertools.cycle(stacked)
    while of_cell:
        (name, shape), count = of_cell[0], next(turns)
        arrays["params"].append((name, (count * shape[0], *shape[1:]) if count > 1 else shape))
        counts.append(count)
        of_cell = of_cell[count:]
    if layers:
        arrays["states"] = arrays["states"][: len(program.states) // layers]
    fields = dict(
        graph=program.graph,
        dims=program.dims,
        reverse=reverse,
        tf32=tf32,
        residuals=residuals,
        cache=None if cache is None else str(cache),
        stacked=counts,
        layers=layers,
        **arrays,
    )
    return Source(json.dumps(fields, sort_keys=True))


@functools.lru_cache(maxsize=256)
def source_of_text(text):
    """Of traced graphs, which have no module."""
    return Source(text)


class Shape(NamedTuple):
    """What calls have in common that one preparing serves."""

    batch: int
    lengths: bool
    resets: bool
    given: bytes  # of each state: whether a call gives it
    wanted: Optional[bytes]  # of inputs, params and states: whose gradients; None: inference


class _Prepared:
    """A Shape that a program has prepared, for up to so many steps."""

    def __init__(self, program, shape, fields, steps):
        self.program, self.shape, self.fields, self.steps = program, shape, fields, steps
        self.used = 0
        self.is_captured = False  # a CUDA graph may be replayed at any time


class CurrentStream:
    """Which stream a program on a GPU was last called on: a call on another waits for that."""

    def __init__(self, device):
        self.device, self.index, self.last = device, device.index, None
        self.is_captured = False

    def enter(self):
        """The current one, and whether it is another than that of the last call. What a CUDA graph
        captures (`is_captured`) is no call yet."""
        stream = raw_stream(self.index)
        self.is_captured = stream != 0 and torch.cuda.is_current_stream_capturing()
        if stream == self.last or self.is_captured:
            return stream, False
        if self.last is not None:
            event = torch.cuda.Event()
            event.record(torch.cuda.ExternalStream(self.last, self.device))
            torch.cuda.current_stream(self.device).wait_event(event)
        self.last = stream
        return stream, True


class Compiled:
    """A Source's program for one device and types, and what it has prepared. From any threads."""

    def __init__(self, source, device, dtype, param_dtype):
        self.source, self.device, self.dtype, self.param_dtype = source, device, dtype, param_dtype
        if dtype not in NAMES:
            names = ", ".join(map(str, NAMES))
            raise ValueError(f"there are no arrays of {dtype}: expected one of {names}")
        if device.type == "cpu" and dtype.itemsize == 2:
            raise ValueError(
                f"{dtype} is for GPUs: on the CPU make it torch.float32, or call within "
                "torch.autocast('cpu'), which computes in torch.float32"
            )
        self.program = Program(
            source.graph,
            source.dims,
            device=str(device),
            dtype=NAMES[dtype],
            f32_params=param_dtype != dtype,
            tf32=source.tf32,
            threads=torch.get_num_threads() if device.type == "cpu" else 0,
            reverse=source.reverse,
            cache=source.cache,
            **{name: getattr(source, name) for name in ON_GPUS if device.type == "cuda"},
            memory=memory if device.type == "cuda" else None,
            openmp=True,  # as PyTorch's own work is
        )
        # In which of the source's params each of the program's lies, and how far in.
        program, self.param_places = self.program, []
        for i, (info, count) in enumerate(zip(source.params, source.stacked)):
            size = math.prod(info.shape) * param_dtype.itemsize // count
            self.param_places += [(i, part * size) for part in range(count)]
        self.state_dtype = TYPES[program.states[0].dtype] if program.states else dtype
        # What calls are checked by.
        self.outputs = len(source.outputs)
        self.params = slice(len(source.inputs), len(source.inputs) + len(source.params))
        self.layers = (source.layers,) if source.layers else ()
        self.input_shapes = [info.shape for info in source.inputs]
        self.input_types = [torch.int32 if info.integer else dtype for info in source.inputs]
        self.state_shapes = [info.shape for info in source.states]
        self.lock = threading.RLock()
        self.prepared, self.programs, self.ready = {}, {}, {}
        self.clock = 0
        self.stream = CurrentStream(device) if device.type == "cuda" else None
        self.is_captured = False  # by a CUDA graph, a call that is being made
        # Kept for small calls, and how many have been; on a GPU the last stream's.
        self.workspace, self.workspaces = None, 0
        self.packed = None  # the params whose packed form it has, where they were, and their versions

    # ---- Preparing ----

    def fields(self, shape, steps):
        """Of rnnc_shape."""
        fields = dict(batch=shape.batch, steps=steps, lengths=shape.lengths, resets=shape.resets)
        if shape.wanted is None:
            return fields
        inputs, params = len(self.source.inputs), len(self.source.params)
        of_params = zip(shape.wanted[inputs : inputs + params], self.source.stacked)
        of_states = shape.wanted[inputs + params :]
        return dict(
            fields,
            training=1,
            outputs=1,
            residuals=RESIDUALS.index(self.source.residuals),
            wanted_inputs=shape.wanted[:inputs],
            wanted_params=b"".join(bytes([flag]) * count for flag, count in of_params),
            wanted_initial_states=self._of_states(of_states),
            given_states=self._of_states(shape.given),
        )

    def _of_states(self, flags):
        """Of the program's states: of each layer the kinds of states in turn."""
        return flags * self.source.layers if self.source.layers else flags

    def prepare(self, shape, steps):
        """Makes calls runnable. Growing lengths seldom have to prepare: a power of two of steps is.

        Each number of steps always gives the same residuals, whatever else has been prepared: so a
        reserve that a forward call has filled is good for any later backward call.
        """
        # What training prepares takes the place of other gradients and steps in its program.
        most = 1 << (max(steps, 1) - 1).bit_length()
        key = shape._replace(given=b"") if shape.wanted is None else (shape, most)
        prepared = self.prepared.get(key)
        if prepared is None or prepared.steps < steps:
            if self.stream is not None and torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    f"{shape.batch} sequences of {steps} steps are not prepared, and a CUDA graph is "
                    "being captured: call the module's prepare(batch=…, steps=…) before, with "
                    "training=True if gradients are wanted"
                )
            self._make_room()
            program = self.program
            if shape.wanted is not None:
                kind = (shape.given, shape.wanted, most)
                program = self.programs.get(kind) or self.program.again()
                self.programs[kind] = program
            fields = self.fields(shape, most)
            program.prepare(**fields)
            prepared = self.prepared[key] = _Prepared(program, shape, fields, most)
        self.clock += 1
        prepared.used = self.clock
        return prepared

    def _make_room(self):
        """Forgets what was not used for longest; never what a CUDA graph has captured."""
        free = [(p.used, key) for key, p in self.prepared.items() if not p.is_captured]
        if len(free) < SHAPES:
            return
        self._forget_calls()
        prepared = self.prepared.pop(min(free, key=lambda pair: pair[0])[1])
        beside = [p for p in self.prepared.values() if p.program is prepared.program]
        if prepared.program is not self.program and not beside:
            self.programs = {k: p for k, p in self.programs.items() if p is not prepared.program}
        elif not any(
            (p.shape.batch, p.shape.lengths, p.shape.resets)
            == (prepared.shape.batch, prepared.shape.lengths, prepared.shape.resets)
            for p in beside
        ):
            prepared.program.forget(**prepared.fields)

    def _forget_calls(self):
        for ready in self.ready.values():
            ready.is_stale = True
        self.ready.clear()

    def state_places(self, batch):
        """In which of the source's states each of the program's lies, and how far in."""
        sizes = [batch * math.prod(shape) * self.state_dtype.itemsize for shape in self.state_shapes]
        layers = range(max(self.source.layers, 1))
        return [(i, layer * size) for layer in layers for i, size in enumerate(sizes)]

    def calls(self, kind):
        """What makes calls of a calls.Kind."""
        ready = self.ready.get(kind)
        if ready is None:
            if len(self.ready) > KNOWN:
                self._forget_calls()
            (steps, batch), given, wanted, lengths, reset = kind
            given = given or bytes(len(self.source.states))
            shape = Shape(batch, lengths, reset, given, wanted)
            ready = PreparedCalls(self, self.prepare(shape, steps), shape, steps)
            self.ready[kind] = ready
        else:
            self.clock = ready.prepared.used = self.clock + 1
        return ready

    def reserve_bound(self, shape):
        return self.program.reserve_bound(**self.fields(shape, 1))

    # ---- Memory ----

    def bytes(self, size):
        return torch.empty(size if size > 0 else 1, dtype=torch.uint8, device=self.device)

    def scratch(self, size):
        """Workspace of a call. A small one is kept: on the CPU calls are done on return, and those on a
        GPU are in order. But a CUDA graph has its own."""
        if size > KEPT_WORKSPACE[self.device.type] or self.is_captured:
            return self.bytes(size)
        if self.workspace is None or self.workspace.numel() < size:
            self.workspace = self.kept_bytes(size)
            self.workspaces += 1
        return self.workspace

    def kept_bytes(self, size):
        """Not from a pool of a CUDA graph that is being prepared, as `torch.compile` does in its mode
        "reduce-overhead" without a capture: nothing of it may outlive the call."""
        if self.stream is None:
            return self.bytes(size)
        found, stream = [], torch.cuda.current_stream(self.device)

        def allocate():
            try:
                with torch.cuda.stream(stream):  # threads have their own
                    found.append(self.bytes(size))
            except torch.OutOfMemoryError:
                pass

        memory.outside_pools(allocate)
        return found[0] if found else self.bytes(size)  # whose error says what is missing

    def enter(self, prepared):
        """The stream of a call."""
        current = self.stream
        if current.last == 0 == raw_stream(current.index):  # the default one, which no graph captures
            self.is_captured = False
            return 0
        stream, is_other = current.enter()
        self.is_captured = self.stream.is_captured
        if is_other:
            self.workspace, self.workspaces = None, self.workspaces + 1
        if self.is_captured and not prepared.is_captured:
            prepared.is_captured = True
            _captured.append(self)
        return stream

    def is_packed(self, params, addresses):
        """Whether the last call had the same params, unchanged as far as PyTorch knows."""
        if self.is_captured:
            self.packed = None  # a graph packs when it is replayed
            return False
        now = addresses, list(map(version_of, params))
        if self.packed is not None:
            before, then = self.packed
            if then == now and are_same(params, before):
                return True
        # Others than leaves come and go, and hold a graph.
        self.packed = (params, now) if all([p.is_leaf for p in params]) else None
        return False


def are_same(tensors, others):
    """Whether lists have the same tensors, or else others of the same values."""
    try:
        return tensors == others  # which asks a tensor only of another object
    except RuntimeError:  # as it does, of several elements
        return False


_captured = []  # what CUDA graphs may be replayed of, which outlive modules
