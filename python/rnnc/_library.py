"""librnnc by ctypes: its functions and structs as runtime/capi/rnnc.h declares them."""

import ctypes
import functools
import importlib.util
import os
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path


class Error(RuntimeError):
    """What the compiler refuses, in its words. `status` is the C API's name for the kind."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Struct(ctypes.Structure):
    """Begins with its size."""

    def __init__(self, **values):
        super().__init__(struct_size=ctypes.sizeof(self), **values)


class Dim(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_int64)]


class Options(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("device", c_char_p),
        ("dtype", c_int),
        ("f32_params", c_int32),
        ("tf32", c_int32),
        ("threads", c_int32),
        ("reverse", c_int32),
        ("chunk", c_int64),
        ("cache_directory", c_char_p),
        ("passes", c_char_p),
        ("tune", c_int32),
        ("allocate", c_void_p),
        ("release", c_void_p),
        ("context", c_void_p),
        ("spare_multiprocessors", c_int32),
        ("openmp", c_int32),
    ]


class ArrayInfo(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("dtype", c_int),
        ("rank", c_int32),
        ("shape", POINTER(c_int64)),
    ]


class Shape(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("batch", c_int64),
        ("steps", c_int64),
        ("lengths", c_int32),
        ("resets", c_int32),
        ("training", c_int32),
        ("residuals", c_int),
        ("checkpoint", c_int64),
        ("accumulate", c_int32),
        ("outputs", c_int32),
        ("wanted_params", c_char_p),
        ("wanted_inputs", c_char_p),
        ("wanted_initial_states", c_char_p),
        ("given_states", c_char_p),
    ]


class Sizes(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("forward_workspace", c_size_t),
        ("backward_workspace", c_size_t),
        ("zeros", c_size_t),
        ("reserve", c_size_t),
    ]


class ReserveBound(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("fixed", c_size_t),
        ("per_step", c_size_t),
        ("per_sequence", c_size_t),
        ("per_row", c_size_t),
    ]


class ForwardArgs(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("steps", c_int64),
        ("batch", c_int64),
        ("inputs", POINTER(c_void_p)),
        ("params", POINTER(c_void_p)),
        ("outputs", POINTER(c_void_p)),
        ("initial_states", POINTER(c_void_p)),
        ("final_states", POINTER(c_void_p)),
        ("lengths", c_void_p),
        ("reset", c_void_p),
        ("reuse_params", c_int32),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("reserve", c_void_p),
        ("reserve_bytes", c_size_t),
        ("stream", c_void_p),
    ]


class BackwardArgs(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("steps", c_int64),
        ("batch", c_int64),
        ("inputs", POINTER(c_void_p)),
        ("params", POINTER(c_void_p)),
        ("outputs", POINTER(c_void_p)),
        ("output_gradients", POINTER(c_void_p)),
        ("final_state_gradients", POINTER(c_void_p)),
        ("param_gradients", POINTER(c_void_p)),
        ("input_gradients", POINTER(c_void_p)),
        ("initial_state_gradients", POINTER(c_void_p)),
        ("lengths", c_void_p),
        ("reset", c_void_p),
        ("reuse_params", c_int32),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("reserve", c_void_p),
        ("reserve_bytes", c_size_t),
        ("stream", c_void_p),
        ("foreign_reserve", c_int32),
    ]


# Name: result (None: nothing; int: a status, which `call` checks) and arguments.
FUNCTIONS = {
    "rnnc_version": (c_uint32, []),
    "rnnc_build": (c_char_p, []),
    "rnnc_status_name": (c_char_p, [c_int]),
    "rnnc_last_error": (c_char_p, []),
    "rnnc_text_data": (c_void_p, [c_void_p]),
    "rnnc_text_size": (c_size_t, [c_void_p]),
    "rnnc_text_free": (None, [c_void_p]),
    "rnnc_devices": (c_int, [POINTER(c_void_p)]),
    "rnnc_library_folder": (c_int, [c_char_p]),
    "rnnc_unit_parse": (c_int, [c_char_p, c_char_p, POINTER(c_void_p)]),
    "rnnc_unit_read": (c_int, [c_char_p, POINTER(c_void_p)]),
    "rnnc_unit_shipped": (c_int, [c_char_p, POINTER(c_void_p)]),
    "rnnc_shipped": (c_int, [POINTER(c_void_p)]),
    "rnnc_unit_definitions": (c_int, [c_void_p, POINTER(c_void_p)]),
    "rnnc_unit_diagnostics": (c_int, [c_void_p, POINTER(c_void_p)]),
    "rnnc_unit_free": (None, [c_void_p]),
    "rnnc_unit_lower": (c_int, [c_void_p, c_char_p, POINTER(Dim), c_size_t, POINTER(c_void_p)]),
    "rnnc_graph_text": (c_int, [c_void_p, POINTER(c_void_p)]),
    "rnnc_graph_parse": (c_int, [c_char_p, POINTER(c_void_p)]),
    "rnnc_graph_free": (None, [c_void_p]),
    "rnnc_program_compile": (
        c_int,
        [c_void_p, POINTER(Dim), c_size_t, POINTER(Options), POINTER(c_void_p)],
    ),
    "rnnc_program_free": (None, [c_void_p]),
    "rnnc_program_count": (c_int, [c_void_p, c_int, POINTER(c_size_t)]),
    "rnnc_program_array": (c_int, [c_void_p, c_int, c_size_t, POINTER(ArrayInfo)]),
    "rnnc_program_streams": (c_int, [c_void_p, POINTER(c_int32)]),
    "rnnc_program_prepare": (c_int, [c_void_p, POINTER(Shape)]),
    "rnnc_program_sizes": (c_int, [c_void_p, POINTER(Shape), POINTER(Sizes)]),
    "rnnc_program_forget": (c_int, [c_void_p, POINTER(Shape)]),
    "rnnc_program_reserve_bound": (c_int, [c_void_p, POINTER(Shape), POINTER(ReserveBound)]),
    "rnnc_program_explain": (c_int, [c_void_p, POINTER(Shape), c_char_p, POINTER(c_void_p)]),
    "rnnc_program_emit": (c_int, [c_void_p, POINTER(Shape), c_char_p, POINTER(c_void_p)]),
    "rnnc_program_notes": (c_int, [c_void_p, POINTER(c_void_p)]),
    "rnnc_weight_map_parse": (c_int, [c_char_p, c_char_p, POINTER(c_void_p)]),
    "rnnc_weight_map_shipped": (c_int, [c_char_p, POINTER(c_void_p)]),
    "rnnc_weight_map_resolve": (c_int, [c_void_p, c_void_p, POINTER(c_void_p)]),
    "rnnc_weight_map_free": (None, [c_void_p]),
    "rnnc_forward": (c_int, [c_void_p, POINTER(ForwardArgs)]),
    "rnnc_backward": (c_int, [c_void_p, POINTER(BackwardArgs)]),
}


def _load():
    given = os.environ.get("RNNC_LIBRARY")
    beside = Path(__file__).with_name("librnnc.so.1")
    path = given or (str(beside) if beside.exists() else "librnnc.so.1")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"{error}: build it by `cmake --build build/default --target rnnc_shared` and set "
            "RNNC_LIBRARY to build/default/runtime/librnnc.so"
        ) from None
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


library = _load()


def check(status):
    """Raises what a failed call has left."""
    if status != 0:
        name = library.rnnc_status_name(status).decode()
        raise Error(name, library.rnnc_last_error().decode())


@functools.cache
def look_for_cuda():
    """Has the library look for NVRTC and cuBLASLt where NVIDIA's Python packages lay them, too."""
    nvidia = importlib.util.find_spec("nvidia")
    for place in nvidia.submodule_search_locations if nvidia else ():
        folder = os.path.join(place, "cu13", "lib")
        if os.path.isdir(folder):
            check(library.rnnc_library_folder(os.fsencode(folder)))


def take_text(make, *arguments):
    """The text that a function of the library gives."""
    text = c_void_p()
    check(make(*arguments, ctypes.byref(text)))
    try:
        size = library.rnnc_text_size(text)
        return ctypes.string_at(library.rnnc_text_data(text), size).decode()
    finally:
        library.rnnc_text_free(text)


def version():
    """(major, minor, patch) of the library."""
    number = library.rnnc_version()
    return number >> 16, number >> 8 & 255, number & 255


def build():
    """Names what was built: as rnnc_build."""
    return library.rnnc_build().decode()


def devices():
    """By name: whether it can be used, or why not."""
    lines = take_text(library.rnnc_devices).splitlines()
    return {name: usable for name, usable, _ in (line.split("\t", 2) for line in lines)}
