"""Weights: in files, and under the names and in the layouts of other frameworks."""

import json
import os
from ctypes import byref, c_void_p
from pathlib import Path

from rnnc import _library
from rnnc._library import check, library


class WeightMap:
    """Which tensors make which params (docs/weight_maps.md), for arrays of NumPy and of PyTorch.

    `source` is the name of a map for a module of PyTorch, Keras or Flax that the library has
    ("torch/stacked_gru", "keras/lstm": examples/torch, keras, flax), a path that ends in ".map", or a
    text of more than one line.
    """

    def __init__(self, source):
        self._handle = c_void_p()
        if isinstance(source, str) and "\n" in source:
            check(library.rnnc_weight_map_parse(b"text.map", source.encode(), byref(self._handle)))
        elif os.fspath(source).endswith(".map"):
            text = Path(source).read_bytes()
            name = os.fsencode(source)
            check(library.rnnc_weight_map_parse(name, text, byref(self._handle)))
        else:
            name = os.fspath(source).encode()
            check(library.rnnc_weight_map_shipped(name, byref(self._handle)))

    def __del__(self):
        library.rnnc_weight_map_free(self._handle)

    def layout(self, program):
        """For a program's params, as docs/c.md lists it: of which tensors each is made."""
        resolve = library.rnnc_weight_map_resolve
        return json.loads(_library.take_text(resolve, self._handle, program.handle))

    def to_params(self, program, tensors):
        """A program's params, by name. A ValueError names all that is missing or does not fit."""
        layout = self.layout(program)
        shapes = {tensor["name"]: tuple(tensor["shape"]) for tensor in layout["tensors"]}
        problems = [
            f"tensor {name!r} has shape {tuple(tensors[name].shape)}, expected {shape}"
            for name, shape in shapes.items()
            if name in tensors and tuple(tensors[name].shape) != shape
        ]
        absent = {}  # in their order
        params = {}
        for param in layout["params"]:
            names = [term["tensor"] for term in param["sum"]]
            missing = [name for name in names if name not in tensors]
            if missing and not (param["or_zeros"] and missing == names):
                absent.update(dict.fromkeys(missing))
            elif not problems:
                shape = tuple(param["shape"])
                if missing:
                    params[param["name"]] = _zeros(shape, tensors)
                    continue
                first, *others = (_part(tensors[t["tensor"]], t).reshape(shape) for t in param["sum"])
                params[param["name"]] = sum(others, first)
        problems += [f"tensor {name!r} of shape {shapes[name]} is missing" for name in absent]
        if problems:
            raise ValueError("; ".join(problems))
        return params

    def to_tensors(self, program, params):
        """The tensors, by name, that make these params; of a sum the first is it, the others are zero."""
        layout = self.layout(program)
        missing = [f"param {p['name']!r} is missing" for p in layout["params"] if p["name"] not in params]
        if missing:
            raise ValueError("; ".join(missing))
        tensors = {t["name"]: _zeros(tuple(t["shape"]), params) for t in layout["tensors"]}
        for param in layout["params"]:
            for term in param["sum"][:1]:
                part = _part(tensors[term["tensor"]], term)
                part[...] = params[param["name"]].reshape(part.shape)
        return tensors


def _part(tensor, term):
    """What a term takes of it; writing there writes to the tensor."""
    tensor = tensor.T if term["transposed"] else tensor
    if term["pieces"] == 1:
        return tensor
    size = tensor.shape[0] // term["pieces"]
    return tensor[term["piece"] * size : (term["piece"] + 1) * size]


def _zeros(shape, like):
    """Of the kind of those in a dict, if there are some."""
    for array in like.values():
        if hasattr(array, "new_zeros"):
            return array.new_zeros(shape)
    import numpy

    return numpy.zeros(shape, next((a.dtype for a in like.values()), numpy.float32))


def load_weights(path):
    """NumPy arrays by name, of an .npz file, or of a .safetensors file if the package safetensors is
    installed."""
    import numpy

    if _is_npz(path):
        with numpy.load(path) as file:
            return dict(file)
    return _safetensors().load_file(path)


def save_weights(path, weights):
    """Writes what `load_weights` and the command `rnnc` read. What was there stays until all is written."""
    import numpy

    is_npz = _is_npz(path)
    partial = f"{os.fspath(path)}.part"
    arrays = {name: numpy.array(array, order="C") for name, array in weights.items()}
    wrong = [f"{name!r} is {a.dtype}" for name, a in arrays.items() if a.dtype.kind != "f"]
    if wrong:
        raise ValueError(f"weights are floats: {', '.join(wrong)}")
    with open(partial, "wb") as file:
        try:
            if is_npz:
                numpy.savez(file, **arrays)
            else:
                file.write(_safetensors().save(arrays))
            file.close()
            os.replace(partial, path)
        except BaseException:
            os.unlink(partial)
            raise


def _is_npz(path):
    suffix = Path(path).suffix
    if suffix not in (".npz", ".safetensors"):
        raise ValueError(f"{os.fspath(path)}: expected a name that ends in .npz or .safetensors")
    return suffix == ".npz"


def _safetensors():
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            "files that end in .safetensors need the package safetensors: pip install safetensors, or "
            "take .npz"
        ) from None
    return safetensors.numpy
