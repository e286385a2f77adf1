"""Gradients of the shipped cells by `rnnc run --gradients`, beside float64 autograd.

    python3 tests/goldens/gradient_errors.py [--device cuda] [--dtype f32 …] [--steps 7 100 512] [CELL…]

Each array's error is the norm of the difference over the norm of autograd's. A cell passes within
its type's limit or within 1.5 times the error of PyTorch's autograd in that type (TF32's where
PyTorch has a GPU). One that does not is drawn four times more, and medians count: where a cell has
kinks (ReLU), rounding turns a slope in one draw and not in another. Exit code 1 if one is beyond
then. All of a cell's arrays are rounded to the type first, so that both differentiate the same
function. README.md says what it needs; `--onnx no` leaves out the cells that only ONNX computes,
which have no autograd anyway.
"""

import argparse
import concurrent.futures
import re
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import numpy as np
import torch

import deterministic

ROOT = Path(__file__).resolve().parents[2]
LIMITS = {"f64": 1e-9, "f32": 1e-4, "tf32": 1e-2, "f16": 1e-2, "bf16": 3e-2}
TYPES = {"f64": "f64", "f32": "f32", "tf32": "f32", "f16": "f16", "bf16": "bf16"}
BATCH, HIDDEN, INPUTS = 3, 33, 7
DRAWS = 5


def import_cells(with_onnx):
    """The definitions, and the class of their data."""
    if not with_onnx:
        onnx = types.ModuleType("onnx")
        onnx.TensorProto = onnx.helper = None
        reference = types.ModuleType("onnx.reference")
        reference.ReferenceEvaluator = None
        runtime = types.ModuleType("onnxruntime")
        runtime.InferenceSession = None
        sys.modules |= {"onnx": onnx, "onnx.reference": reference, "onnxruntime": runtime}
        files = types.ModuleType("safetensors.numpy")
        files.save_file = None
        sys.modules |= {"safetensors": types.ModuleType("safetensors"), files.__name__: files}
    import make_goldens

    modules = (
        make_goldens.cells,
        make_goldens.cells_networks,
        make_goldens.cells_gated,
        make_goldens.cells_scan,
    )
    return {cell.__name__: cell for module in modules for cell in module.CELLS}, make_goldens.Data


def file_of(cell):
    """The .rnn file that defines it."""
    for file in sorted(ROOT.glob("examples/*/*.rnn")):
        if re.search(rf"^(cell|network) {cell}\b", file.read_text(), re.MULTILINE):
            return file
    raise SystemExit(f"no file in examples/ defines {cell}")


def weights_of_loss(results, rounding, draw):
    """The gradients of the loss by outputs and final states. States are float32 at least."""
    return {
        name: deterministic.values(
            f"gradient{draw or ''}.{name}",
            tuple(value.shape),
            1,
            "f32" if name.startswith("final.") and rounding != "f64" else rounding,
        )
        for name, value in results.items()
    }


def autograd(function, data_class, steps, rounding, draw, torch_type=torch.float64, device="cpu"):
    """The data, the loss's gradients by its terms, and those by all leaves, in float64."""

    class TypedData(data_class):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.kinds = {}

        def state(self, name, *shape, **options):
            self.kinds[name] = "state"
            return super().state(name, *shape, **options).to(device, torch_type)

        def input(self, name, *shape, **options):
            self.kinds[name] = "input"
            return super().input(name, *shape, **options)

        def _leaf(self, name, *arguments):
            self.kinds.setdefault(name, "param")
            return super()._leaf(name, *arguments)

        def _values(self, *arguments):
            return super()._values(*arguments).to(device, torch_type)

    data = TypedData(f"{function.__name__}{draw or ''}", steps, BATCH, HIDDEN, INPUTS, rounding, True)
    # Definitions name float64 where PyTorch asks for a type.
    double, torch.float64 = torch.float64, torch_type
    try:
        with torch.device(device):
            outputs, finals = function(data)
    finally:
        torch.float64 = double
    results = outputs | {f"final.{state}": value for state, value in finals.items()}
    terms = weights_of_loss(results, rounding, draw)
    loss = sum((terms[name].to(value) * value).sum() for name, value in results.items())
    gradients = torch.autograd.grad(loss, list(data.leaves.values()), materialize_grads=True)
    return data, terms, dict(zip(data.leaves, (g.double().cpu().numpy() for g in gradients)))


def run_rnnc(arguments, cell, dtype, data, terms, residuals):
    """The gradients by name."""
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.rnnc, "run", str(file_of(cell)), "--cell", cell]
        command += ["--device", arguments.device, "--dtype", TYPES[dtype]]
        command += ["--residuals", residuals]
        command += ["--tf32"] * (dtype == "tf32")
        for name, value in data.dims.items():
            command += ["--dim", f"{name}={value}"]

        def add(option, name, array):
            path = f"{folder}/{len(command)}.npy"
            np.save(path, array)
            command.extend([option, f"{name}={path}"])

        leaves = {name: leaf.detach().numpy() for name, leaf in data.leaves.items()}
        kinds = data.kinds
        np.savez(f"{folder}/w.npz", **{n: a for n, a in leaves.items() if kinds[n] == "param"})
        command += ["--weights", f"{folder}/w.npz", "--gradients", f"{folder}/g.npz"]
        for name, array in leaves.items():
            if kinds[name] != "param":
                add("--input" if kinds[name] == "input" else "--init", name, array)
        for name, array in terms.items():
            final = name.startswith("final.")
            add("--final-gradient" if final else "--output-gradient", name.removeprefix("final."), array)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{cell}: {' '.join(command)}: {done.stderr.strip()}")
        with np.load(f"{folder}/g.npz") as arrays:
            return {name: arrays[name].astype(np.float64) for name in arrays.files}


def errors_of(gradients, expected):
    """By array; those that neither has are not there."""
    errors = {}
    for name, wanted in expected.items():
        if name in gradients:
            norm = np.linalg.norm(wanted)
            apart = np.linalg.norm(gradients[name].reshape(wanted.shape) - wanted)
            errors[name] = float(apart / norm) if norm > 0 else float(apart)
    return errors


def peer_gradients(function, data_class, steps, dtype, draw):
    """PyTorch's own in that type; None where it has none."""
    if dtype == "f64" or (dtype == "tf32" and not torch.cuda.is_available()):
        return None
    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    rounding = TYPES[dtype]
    device = "cuda" if dtype == "tf32" else "cpu"
    own = deterministic.ROUNDINGS[rounding]
    return autograd(function, data_class, steps, rounding, draw, own, device)[2]


def medians(errors):
    """By array, of several draws' errors."""
    return {name: np.median([draw[name] for draw in errors]) for name in errors[0]} if errors else {}


def check_type(arguments, cell, steps, dtype):
    """A line on the array that is worst by its limit, and whether it is within."""
    cells, data_class = import_cells(arguments.onnx == "yes")
    case = (cells[cell], data_class, steps)
    ours, peers = [], []
    for draw in range(DRAWS):
        try:
            data, terms, expected = autograd(*case, TYPES[dtype], draw)
        except (RuntimeError, AttributeError):  # ONNX's takes no tensors that want gradients
            return f"{cell}: has no autograd", True
        gradients = run_rnnc(arguments, cell, dtype, data, terms, arguments.residuals)
        if set(expected) - set(gradients) or not expected:
            return f"{cell}: no gradients by {sorted(set(expected) - set(gradients))}", False
        ours.append(errors_of(gradients, expected))
        if draw > 0 or not all(error <= LIMITS[dtype] for error in ours[0].values()):
            gradients = peer_gradients(*case, dtype, draw)
            peers += [errors_of(gradients, expected)] if gradients else []
        error, peer = medians(ours), medians(peers)
        limits = {n: max(LIMITS[dtype], 1.5 * peer.get(n, 0)) for n in error}
        good = all(error[n] <= limits[n] for n in error)  # infinity in f16 as PyTorch's may be
        if good and draw == 0:
            break
    worst = max(error, key=lambda n: np.nan_to_num(error[n] / limits[n], nan=np.inf))
    beside = f", PyTorch in {dtype} {peer[worst]:.1e}" if peer else ""
    beside += f", medians of {len(ours)} draws" if len(ours) > 1 else ""
    state = "" if good else "  TOO LARGE"
    text = f"{cell} T {steps} {dtype}: {error[worst]:.1e} {worst} of {len(error)} arrays"
    return f"{text}{beside}{state}", good


def check(arguments, cell, steps, dtypes):
    """Lines, and whether all is well."""
    torch.set_num_threads(1)
    rows = [check_type(arguments, cell, steps, dtype) for dtype in dtypes]
    if all("has no autograd" in text for text, _ in rows):
        rows = rows[:1]
    return [text for text, _ in rows], all(good for _, good in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cells", nargs="*", metavar="CELL")
    parser.add_argument("--rnnc", default=str(ROOT / "build/default/tools/rnnc"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", nargs="+", choices=LIMITS, default=["f64", "f32"])
    parser.add_argument("--steps", nargs="+", type=int, default=[7, 100, 512])
    parser.add_argument("--residuals", choices=["all", "least", "auto"], default="auto")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--onnx", choices=["yes", "no"], default="yes")
    arguments = parser.parse_args()
    names = arguments.cells or list(import_cells(arguments.onnx == "yes")[0])
    failed, count, lines = [], 0, []
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        jobs = [
            pool.submit(check, arguments, cell, steps, arguments.dtype)
            for steps in sorted(arguments.steps, reverse=True)
            for cell in names
        ]
        for job in jobs:
            texts, good = job.result()
            print("\n".join(texts), flush=True)
            count += len(texts)
            lines += texts
            failed += [] if good else [text for text in texts if "LARGE" in text or ": no" in text]
    print(f"{count} checked, {len(failed)} too far")
    print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
