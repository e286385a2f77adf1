"""Gradients of the shipped cells by `rnnc run --gradients`, beside float64 autograd.

    python3 tests/goldens/gradient_errors.py [--device cuda] [--dtype f32 …] [--steps 7 100 512] [CELL…]

Each array's error is the norm of the difference over the norm of autograd's. A cell passes within
its type's limit or within 1.5 times the error of PyTorch's autograd in that type. Exit code 1 if one
does not. All of a cell's arrays are rounded to the type first, so that both differentiate the same
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


def weights_of_loss(results, rounding):
    """The gradients of the loss by outputs and final states. States are float32 at least."""
    return {
        name: deterministic.values(
            f"gradient.{name}",
            tuple(value.shape),
            1,
            "f32" if name.startswith("final.") and rounding != "f64" else rounding,
        )
        for name, value in results.items()
    }


def autograd(function, data_class, steps, rounding, torch_type=torch.float64):
    """The data, the loss's gradients by its terms, and those by all leaves, in float64."""

    class TypedData(data_class):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.kinds = {}

        def state(self, name, *shape, **options):
            self.kinds[name] = "state"
            return super().state(name, *shape, **options).to(torch_type)

        def input(self, name, *shape, **options):
            self.kinds[name] = "input"
            return super().input(name, *shape, **options)

        def _leaf(self, name, *arguments):
            self.kinds.setdefault(name, "param")
            return super()._leaf(name, *arguments)

        def _values(self, *arguments):
            return super()._values(*arguments).to(torch_type)

    data = TypedData(function.__name__, steps, BATCH, HIDDEN, INPUTS, rounding, True)
    # Definitions name float64 where PyTorch asks for a type.
    double, torch.float64 = torch.float64, torch_type
    try:
        outputs, finals = function(data)
    finally:
        torch.float64 = double
    results = outputs | {f"final.{state}": value for state, value in finals.items()}
    terms = weights_of_loss(results, rounding)
    loss = sum((terms[name].to(value.dtype) * value).sum() for name, value in results.items())
    gradients = torch.autograd.grad(loss, list(data.leaves.values()), materialize_grads=True)
    return data, terms, dict(zip(data.leaves, (g.double().numpy() for g in gradients)))


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


def check(arguments, cell, steps, dtypes):
    """A row for each type: the worst array, by its limit."""
    torch.set_num_threads(1)
    cells, data_class = import_cells(arguments.onnx == "yes")
    rows = []
    for dtype in dtypes:
        rounding = TYPES[dtype]
        try:
            data, terms, expected = autograd(cells[cell], data_class, steps, rounding)
        except (RuntimeError, AttributeError):  # ONNX's takes no tensors that want gradients
            return [f"{cell}: has no autograd"], True
        ours = errors_of(
            run_rnnc(arguments, cell, dtype, data, terms, arguments.residuals), expected
        )
        if set(expected) - set(ours) or not ours:
            return [f"{cell}: no gradients by {sorted(set(expected) - set(ours))}"], False
        limits = {name: LIMITS[dtype] for name in ours}
        peer = {}
        if any(not ours[name] <= limits[name] for name in ours) and dtype not in ("f64", "tf32"):
            own = deterministic.ROUNDINGS[rounding]
            peer = errors_of(autograd(cells[cell], data_class, steps, rounding, own)[2], expected)
            limits = {n: max(limits[n], 1.5 * peer[n]) for n in ours}
        worst = max(ours, key=lambda n: ours[n] / limits[n] if ours[n] == ours[n] else np.inf)
        good = bool(ours[worst] <= limits[worst])
        beside = f", PyTorch in {dtype} {peer[worst]:.1e}" if peer else ""
        state = "" if good else "  TOO LARGE"
        rows.append((dtype, ours[worst], f"{cell} T {steps} {dtype}: {ours[worst]:.1e} {worst}"
                     f" of {len(ours)} arrays{beside}{state}", good))
    return [row[2] for row in rows], all(row[3] for row in rows)


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
