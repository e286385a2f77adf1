"""Compiled cells on arrays of the host."""

import ctypes
import os
from collections import namedtuple
from ctypes import byref, c_size_t, c_void_p
from operator import index
from pathlib import Path

from rnnc import _library
from rnnc._library import Error, check, library
from rnnc.definition import Definition
from rnnc.explanation import Explanation

DTYPES = ("f32", "f64", "bf16", "f16")
ARRAY_DTYPES = (*DTYPES, "i32")  # inputs of integers too
MOST_INTEGER = 2**24
ROLES = {"inputs": 0, "params": 1, "states": 2, "outputs": 3}

Array = namedtuple("Array", ["name", "shape", "dtype"])
Array.__doc__ = "One array of a program; `shape` is that of one step and one sequence."
Result = namedtuple("Result", ["outputs", "final_states"])
Result.__doc__ = "Arrays by name: outputs [T, B, ...], final states [B, ...]."


def _dims(values):
    return (_library.Dim * len(values))(*((n.encode(), v) for n, v in values.items()))


def _integers(dims):
    """Of any kind of integers, NumPy's too."""
    for name, value in dims.items():
        if not hasattr(value, "__index__"):
            raise ValueError(f"the dim {name} is {value!r}, expected an integer")
    return {name: index(value) for name, value in dims.items()}


def _is_text(source):
    return isinstance(source, str) and ("\n" in source or "{" in source)


def _is_name(source):
    """Of a shipped cell or network, as far as one can see: "lstm"."""
    return isinstance(source, str) and source.isidentifier()


class Program:
    """A cell or network on one device; made by `compile`. One call at a time.

    `graph` is the text of its step graph, `dims` and `options` are what it was compiled with. `inputs`,
    `params`, `states` and `outputs` are lists of `Array`, in the order of their declaration; states
    that the cell implies (h@2) come behind its own.
    """

    def __init__(self, graph, dims, **options):
        self._made = None  # a handle, and the process that it is good for
        self.graph, self.dims, self.options = graph, dims, options
        self.device, self.dtype = options["device"], options["dtype"]
        for kind, role in ROLES.items():
            setattr(self, kind, self._arrays(role))

    def __del__(self):
        if self._made is not None and self._made[1] is _process:
            _unused.append(self._made[0])
            if self.device == "cpu":
                free_unused()

    def __reduce__(self):
        """Copies, and those in other processes, are compiled again."""
        return _program_of, (self.graph, self.dims, self.options)

    def again(self):
        """Another program of the same."""
        return Program(self.graph, self.dims, **self.options)

    @property
    def handle(self):
        """A process that was forked has none of its parent's threads: it compiles anew."""
        if self._made is None or self._made[1] is not _process:
            self._made = _compiled(self.graph, self.dims, **self.options), _process
        return self._made[0]

    def _arrays(self, role):
        count = c_size_t()
        check(library.rnnc_program_count(self.handle, role, byref(count)))
        arrays = []
        for place in range(count.value):
            info = _library.ArrayInfo()
            check(library.rnnc_program_array(self.handle, role, place, byref(info)))
            shape = tuple(info.shape[i] for i in range(info.rank))
            arrays.append(Array(info.name.decode(), shape, ARRAY_DTYPES[info.dtype]))
        return arrays

    @property
    def notes(self):
        """What runs otherwise than asked for, and why."""
        return _library.take_text(library.rnnc_program_notes, self.handle).splitlines()

    def explain(self, batch=16, steps=100, **shape):
        """How calls of a shape run, and what they cost: an Explanation. `shape` as in `prepare`."""
        shape = _library.Shape(batch=batch, steps=steps, **shape)

        def explain(form):
            function = library.rnnc_program_explain
            return _library.take_text(function, self.handle, byref(shape), form.encode())

        return Explanation(explain)

    def emit(self, form, batch=16, steps=100, **shape):
        """What the compiler makes of a shape, a text: its "graph" or "plan", and "llvm" or "asm" (CPU),
        "cuda" or "ptx" (GPU). With "backward " in front, of training's other half. `shape` as in `prepare`.
        """
        shape = _library.Shape(batch=batch, steps=steps, **shape)
        return _library.take_text(
            library.rnnc_program_emit, self.handle, byref(shape), form.encode()
        )

    def prepare(self, **shape):
        """Makes calls of a shape runnable, and tells the bytes that they need.

        `shape` has the fields of rnnc_shape; lists of wanted gradients are bytes.
        """
        free_unused()
        shape = _library.Shape(**shape)
        check(library.rnnc_program_prepare(self.handle, byref(shape)))
        return self.sizes(shape)

    def sizes(self, shape):
        """The same of a _library.Shape that is prepared, for its number of steps."""
        sizes = _library.Sizes()
        check(library.rnnc_program_sizes(self.handle, byref(shape), byref(sizes)))
        return sizes

    def forget(self, **shape):
        """Frees what calls of a shape, or of all, need. Waits for the GPU."""
        shape = byref(_library.Shape(**shape)) if shape else None
        check(library.rnnc_program_forget(self.handle, shape))

    def reserve_bound(self, **shape):
        """What no reserve is larger than, a _library.ReserveBound; before preparing."""
        bound = _library.ReserveBound()
        shape = _library.Shape(**shape)
        check(library.rnnc_program_reserve_bound(self.handle, byref(shape), byref(bound)))
        return bound

    def forward(self, arguments):
        """`arguments`: a _library.ForwardArgs of addresses."""
        check(library.rnnc_forward(self.handle, byref(arguments)))

    def backward(self, arguments):
        """`arguments`: a _library.BackwardArgs of addresses."""
        check(library.rnnc_backward(self.handle, byref(arguments)))

    def run(self, inputs, params, initial_states=None, lengths=None, reset=None):
        """Runs sequences of NumPy arrays, by name; on the CPU.

        Inputs are [T, B, ...], params as declared, initial states [B, ...] (those that are not there
        begin as declared), lengths [B], reset [T, B]. A ValueError names all that does not fit.
        """
        return _HostRun(self, inputs, params, initial_states or {}, lengths, reset).run()


def behind(name, given):
    """Of a history the given state that it lies behind: `h` of `h@history`, `u@1` of `u@history`."""
    own = name.removesuffix("@history")
    return None if own == name else given.get(own, given.get(f"{own}@1"))


class _HostRun:
    """The arrays of one run, as the library takes them."""

    def __init__(self, program, inputs, params, initial_states, lengths, reset):
        import numpy

        self._numpy, self._program = numpy, program
        if program.device != "cpu":
            raise ValueError(f"run takes arrays of the host, and the program is on {program.device}")
        self._problems = []
        steps, batch = self._size(inputs)
        self._steps, self._batch = steps, batch
        self._inputs = self._take("input", program.inputs, inputs, (steps, batch))
        self._params = self._take("param", program.params, params, ())
        initial = self._with_histories(initial_states)
        self._initial = self._take("initial state", program.states, initial, (batch,), False)
        self._lengths = self._numbers("lengths", lengths, numpy.int32, (batch,))
        self._reset = self._numbers("reset", reset, numpy.uint8, (steps, batch))
        if self._problems:
            raise ValueError("; ".join(self._problems))

    def _size(self, inputs):
        for info in self._program.inputs:
            array = self._numpy.asarray(inputs.get(info.name, 0))
            if array.ndim >= 2:
                return array.shape[:2]
        return 0, 0

    def _type(self, info):
        numpy = self._numpy
        return {"f32": numpy.float32, "f64": numpy.float64, "i32": numpy.int32}[info.dtype]

    def _with_histories(self, given):
        """A history that is not given has the state that is, at all earlier steps."""
        filled = dict(given)
        for info in self._program.states:
            state = behind(info.name, given)
            if state is not None and info.name not in given:
                state = self._numpy.expand_dims(state, 1)
                filled[info.name] = self._numpy.repeat(state, info.shape[0], axis=1)
        return filled

    def _take(self, kind, infos, given, leading, needed=True):
        names = [info.name for info in infos]
        for name in given:
            if name not in names:
                self._problems.append(f"{kind} {name!r}: there is none; there are {names}")
        arrays = []
        for info in infos:
            if info.name not in given:
                if needed:
                    self._problems.append(f"{kind} {info.name!r} of shape {info.shape} is missing")
                arrays.append(None)
                continue
            if info.dtype == "i32" and not self._are_integers(info.name, given[info.name]):
                arrays.append(None)
                continue
            array = self._numpy.ascontiguousarray(given[info.name], dtype=self._type(info))
            wanted = tuple(leading) + info.shape
            if array.shape != wanted:
                self._problems.append(
                    f"{kind} {info.name!r} has shape {array.shape}, expected {wanted}"
                )
            arrays.append(array)
        return arrays

    def _are_integers(self, name, given):
        array = self._numpy.asarray(given)
        if array.dtype.kind not in "iu":
            self._problems.append(f"input {name!r} is {array.dtype}, expected integers")
        elif array.size and (array.min() < -MOST_INTEGER or array.max() > MOST_INTEGER):
            self._problems.append(f"input {name!r} has integers beyond {MOST_INTEGER}")
        else:
            return True
        return False

    def _numbers(self, name, given, dtype, shape):
        if given is None:
            return None
        array = self._numpy.ascontiguousarray(given, dtype=dtype)
        if array.shape != shape:
            self._problems.append(f"{name} has shape {array.shape}, expected {shape}")
        return array

    def run(self):
        numpy, program = self._numpy, self._program

        def make(infos, leading):
            return [numpy.empty(leading + i.shape, dtype=self._type(i)) for i in infos]

        outputs = make(program.outputs, (self._steps, self._batch))
        finals = make(program.states, (self._batch,))
        sizes = program.prepare(
            batch=self._batch,
            steps=self._steps,
            lengths=self._lengths is not None,
            resets=self._reset is not None,
        )
        workspace = numpy.empty(max(sizes.forward_workspace, 1), dtype=numpy.uint8)
        program.forward(
            _library.ForwardArgs(
                steps=self._steps,
                batch=self._batch,
                inputs=pointers(_addresses(self._inputs)),
                params=pointers(_addresses(self._params)),
                outputs=pointers(_addresses(outputs)),
                initial_states=pointers(_addresses(self._initial)),
                final_states=pointers(_addresses(finals)),
                lengths=_address(self._lengths),
                reset=_address(self._reset),
                workspace=_address(workspace),
                workspace_bytes=workspace.nbytes,
            )
        )
        return Result(
            {info.name: array for info, array in zip(program.outputs, outputs)},
            {info.name: array for info, array in zip(program.states, finals)},
        )


def _address(array):
    return None if array is None else array.ctypes.data


def _addresses(arrays):
    return [_address(array) for array in arrays]


def pointers(addresses):
    """A list for the library; None is NULL."""
    return (c_void_p * len(addresses))(*addresses)


def compile(
    source,
    definition=None,
    *,
    device="cpu",
    dtype="f32",
    f32_params=False,
    tf32=False,
    threads=0,
    reverse=False,
    cache=None,
    spare_multiprocessors=0,
    tune=False,
    **dims,
):
    """Compiles a cell or network.

    `source` is a path, the name of a cell or network that the library has ("lstm": `shipped`), a text
    (it has a brace), or what `@rnnc.cell` made of a function; `definition` names one of several cells
    in it; other keyword arguments are dims (`H=512`). `dtype` is f32, f64 (CPU), bf16 or f16 (GPU).
    `spare_multiprocessors` of a GPU are left to what else runs there, such as NCCL's kernels. `tune`:
    preparing a shape on a GPU measures how its recurrences are fastest, which the cache remembers.
    Raises `Error` with the compiler's diagnostics.
    """
    if dtype not in DTYPES:
        raise ValueError(f"there is no dtype {dtype!r}: expected one of {', '.join(DTYPES)}")
    dims = _integers(dims)
    return Program(
        graph_of(source, definition, dims),
        dims,
        device=device,
        dtype=dtype,
        f32_params=f32_params,
        tf32=tf32,
        threads=threads,
        reverse=reverse,
        cache=None if cache is None else os.fspath(cache),
        spare_multiprocessors=spare_multiprocessors,
        tune=tune,
    )


def graph_of(source, definition=None, dims=None):
    """The text of a step graph, as `rnnc emit --as graph` prints it; arguments as in `compile`."""
    dims = _integers(dims or {})
    text = source.text if isinstance(source, Definition) else source
    unit, graph = c_void_p(), c_void_p()
    try:
        if _is_text(text):
            check(library.rnnc_unit_parse(b"cell.rnn", text.encode(), byref(unit)))
        elif _is_name(text):
            check(library.rnnc_unit_shipped(text.encode(), byref(unit)))
        else:
            check(library.rnnc_unit_read(os.fsencode(Path(text)), byref(unit)))
        name = None if definition is None else definition.encode()
        check(library.rnnc_unit_lower(unit, name, _dims(dims), len(dims), byref(graph)))
        return _library.take_text(library.rnnc_graph_text, graph)
    except Error as error:
        if not isinstance(source, Definition):
            raise
        raise Error(error.status, source.locate(str(error))) from None
    finally:
        library.rnnc_graph_free(graph)
        library.rnnc_unit_free(unit)


def shipped():
    """Names of the cells and networks that the library has, those of examples/."""
    return _library.take_text(library.rnnc_shipped).splitlines()


def _compiled(
    text, dims, *, device, dtype, f32_params, tf32, threads, reverse, cache, spare_multiprocessors=0,
    tune=False, memory=None, openmp=False,
):
    """The handle of a program. `memory` has the functions `allocate` and `release` of rnnc_options, and
    gets the number of the GPU."""
    graph, program = c_void_p(), c_void_p()
    if device.startswith("cuda"):
        _library.look_for_cuda()
    options = _library.Options(
        device=device.encode(),
        dtype=DTYPES.index(dtype),
        f32_params=f32_params,
        tf32=tf32,
        threads=threads,
        reverse=reverse,
        cache_directory=None if cache is None else os.fsencode(cache),
        spare_multiprocessors=spare_multiprocessors,
        tune=tune,
        openmp=openmp,
    )
    if memory is not None:
        options.allocate = ctypes.cast(memory.allocate, c_void_p)
        options.release = ctypes.cast(memory.release, c_void_p)
        options.context = int(device.partition(":")[2] or 0)
    free_unused()
    try:
        check(library.rnnc_graph_parse(text.encode(), byref(graph)))
        values = _dims(dims)
        check(
            library.rnnc_program_compile(
                graph, values, len(dims), byref(options), byref(program)
            )
        )
    finally:
        library.rnnc_graph_free(graph)
    return program


def _program_of(graph, dims, options):
    return Program(graph, dims, **options)


_process = object()  # stands for this one


def _forked():
    global _process
    _process = object()
    _unused.clear()


os.register_at_fork(after_in_child=_forked)

# Handles of programs that are gone. Freeing one waits for its GPU, which must not happen while a CUDA
# graph is captured, and objects die at any time: so that is done when the next is made or prepared.
_unused = []


def free_unused():
    """Frees programs that nothing refers to any more. Not while a CUDA graph is captured."""
    while _unused:
        library.rnnc_program_free(_unused.pop())
