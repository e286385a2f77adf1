"""A linear recurrence through rnnc and, where they are installed, through others.

    python3 bench/scans.py [--device cuda] [--json FILE] [--svg FILE] [--seconds 0.2]

1. `rnnc bench scan`: MinGRU from its gates' pre-activations, T from 1 to 2^20, the loop, the scan and
   what rnnc chooses, beside a sum that moves the same bytes.
2. MinGRU and MinLSTM with their products, input 64, hidden 128, batch 1, T 8 to 1024, as CUDA_RNN's
   table has them: rnnc (on a GPU and two threads of the CPU), NumPy's loop, and
   `jax.lax.associative_scan` under jit.
3. On a GPU also MinGRU from pre-activations at 8x16384x1536, beside a sum of as many bytes and jax,
   and h = a h + b through fla's chunk_hgrn and accelerated-scan.

Medians of calls whose arrays are on the device already. A peer that is not installed is left out, one
that fails is said so. --svg draws the first part with matplotlib.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: its products are small

import numpy as np

from common import median_seconds, run_bench
from recurrence_shapes import ROOT

INPUT, HIDDEN, STEPS = 64, 128, (8, 16, 32, 64, 128, 256, 512, 1024)
LARGE = (8, 16384, 1536)  # batch, steps, channels
CELLS = {"MinGRU": ("mingru.rnn", "zn"), "MinLSTM": ("minlstm.rnn", "fin")}


def rnnc_seconds(rnnc, words, dims, options):
    """Of a call; of its replay as a graph where there is one."""
    result = run_bench(rnnc, words, dims, options)
    step = result.get("replayed_microseconds_per_step", result["microseconds_per_step"])
    return step * options["steps"] * 1e-6


def rnnc_cell(rnnc, cell, steps, seconds, **options):
    words = [ROOT / "examples/cells" / CELLS[cell][0], "--cell", cell]
    return rnnc_seconds(rnnc, words, {"I": INPUT, "H": HIDDEN},
                        {"batch": 1, "steps": steps, "seconds": seconds} | options)


def arrays(cell, steps):
    random = np.random.default_rng(1)
    draw = lambda *shape: random.standard_normal(shape, dtype=np.float32) / 8
    _, gates = CELLS[cell]
    return draw(steps, INPUT), [draw(HIDDEN, INPUT) for _ in gates], [draw(HIDDEN) for _ in gates]


def coefficients(cell, values, sigmoid):
    """a and b of h = a h + b, from the gates' pre-activations."""
    if cell == "MinGRU":
        z = sigmoid(values[0])
        return 1 - z, z * values[1]
    f, i = sigmoid(values[0]), sigmoid(values[1])
    return f / (f + i), i * values[2] / (f + i)


def numpy_cell(cell, steps, seconds):
    x, weights, biases = arrays(cell, steps)

    def call():
        values = [x @ w.T + b for w, b in zip(weights, biases)]
        a, b = coefficients(cell, values, lambda v: 1 / (1 + np.exp(-v)))
        h, states = np.zeros(HIDDEN, np.float32), np.empty_like(b)
        for t in range(steps):
            h = a[t] * h + b[t]
            states[t] = h
        return states

    return median_seconds(call, seconds)


def jax_scan(jax, a, b):
    join = lambda left, right: (right[0] * left[0], right[0] * left[1] + right[1])
    return jax.lax.associative_scan(join, (a, b))[1]


def jax_cell(cell, steps, seconds):
    import jax

    given = jax.device_put(arrays(cell, steps))

    @jax.jit
    def run(x, weights, biases):
        values = [x @ w.T + b for w, b in zip(weights, biases)]
        return jax_scan(jax, *coefficients(cell, values, jax.nn.sigmoid))

    return median_seconds(lambda: run(*given).block_until_ready(), seconds)


def large_jax(seconds):
    import jax

    batch, steps, channels = LARGE
    keys = jax.random.split(jax.random.key(1))
    p, n = (jax.random.normal(key, (steps, batch, channels)) for key in keys)

    @jax.jit
    def run(p, n):
        return jax_scan(jax, *coefficients("MinGRU", (p, n), jax.nn.sigmoid))

    return median_seconds(lambda: run(p, n).block_until_ready(), seconds)


def torch_seconds(run, seconds):
    import torch

    def call():
        run()
        torch.cuda.synchronize()

    return median_seconds(call, seconds)


def large_fla(seconds):
    import torch
    from fla.ops.hgrn import chunk_hgrn

    batch, steps, channels = LARGE
    x = torch.randn(batch, steps, channels, device="cuda")
    g = torch.nn.functional.logsigmoid(torch.randn_like(x))
    return torch_seconds(lambda: chunk_hgrn(x, g), seconds)


def large_accelerated(seconds):
    import torch
    from accelerated_scan.warp import scan

    batch, steps, channels = LARGE
    gates = torch.rand(batch, channels, steps, device="cuda")
    tokens = torch.randn_like(gates)
    return torch_seconds(lambda: scan(gates, tokens), seconds)


LARGE_CELLS = """
cell Gate[H](p: [H], n: [H]) -> h {
  state h: [H]
  z = sigmoid(p[t])
  h[t] = (1 - z) * h[t-1] + z * n[t]
}
cell Sum[H](p: [H], n: [H]) -> h {
  h = p[t] + n[t]
}
"""


def large_rnnc(rnnc, seconds, folder, cell, dtype):
    batch, steps, channels = LARGE
    file = Path(folder) / "large.rnn"
    file.write_text(LARGE_CELLS)
    return rnnc_seconds(rnnc, [file, "--cell", cell], {"H": channels},
                        {"batch": batch, "steps": steps, "device": "cuda", "dtype": dtype,
                         "seconds": seconds})


def attempt(name, measure):
    """Microseconds; None, and a word why, if it cannot run here."""
    try:
        return measure() * 1e6
    except ImportError as error:
        print(f"# {name}: {error}")
    except (Exception, SystemExit) as error:  # one's failure must not end the run
        print(f"# {name} failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
    return None


def cell_table(rnnc, device, seconds):
    rows = []
    ways = {"rnnc 2 threads": lambda *a: rnnc_cell(rnnc, *a, threads=2)}
    if device == "cuda":
        ways["rnnc GPU"] = lambda *a: rnnc_cell(rnnc, *a, device="cuda")
        ways["rnnc GPU loop"] = lambda *a: rnnc_cell(rnnc, *a, device="cuda", strategy="loop")
    ways |= {"NumPy": numpy_cell, "JAX": jax_cell}
    print("\t".join(["cell", "steps", *(f"{name} us" for name in ways)]))
    for cell in CELLS:
        for steps in STEPS:
            row = {"cell": cell, "steps": steps}
            for name, way in list(ways.items()):
                row[name] = attempt(name, lambda: way(cell, steps, seconds))
                if row[name] is None:
                    del ways[name]
            rows.append(row)
            print("\t".join("-" if value is None else f"{value:.1f}" if isinstance(value, float)
                            else str(value) for value in row.values()), flush=True)
    return rows


def large_table(rnnc, seconds):
    elements = np.prod(LARGE, dtype=np.int64)
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        ours = {f"rnnc {cell} {dtype}": lambda cell=cell, dtype=dtype: large_rnnc(
                    rnnc, seconds, folder, cell, dtype)
                for dtype in ("f32", "bf16") for cell in ("Gate", "Sum")}
        peers = {"JAX f32": lambda: large_jax(seconds), "fla f32": lambda: large_fla(seconds),
                 "accelerated-scan f32": lambda: large_accelerated(seconds)}
        for name, way in (ours | peers).items():
            micros = attempt(name, way)
            if micros is not None:
                rows[name] = micros * 1e6 / elements
                print(f"{name}\t{rows[name]:.2f} ps per element", flush=True)
    return rows


def draw(sweep, file):
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    shapes = sorted({(row["batch"], row["hidden"]) for row in sweep["shapes"]})
    _, plots = pyplot.subplots(1, 2, figsize=(11, 4))
    for batch, hidden in shapes:
        rows = [row for row in sweep["shapes"] if (row["batch"], row["hidden"]) == (batch, hidden)]
        steps = [row["steps"] for row in rows]
        label = f"B {batch}, H {hidden}"
        plots[0].plot(steps, [row["microseconds"] for row in rows], marker=".", label=label)
        plots[1].plot(steps, [row["loop_microseconds"] / row["scan_microseconds"] for row in rows],
                      marker=".", label=label)
    for plot, title in zip(plots, ("us", "speedup of the scan over the loop")):
        plot.set(xscale="log", yscale="log", xlabel="T", title=title)
        plot.legend()
    pyplot.savefig(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rnnc", default=ROOT / "build/default/tools/rnnc")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--seconds", type=float, default=0.2, help="of each measurement")
    parser.add_argument("--json")
    parser.add_argument("--svg")
    options = parser.parse_args()
    sweep = run_bench(options.rnnc, ["scan"], {}, {"device": options.device, "dtype": options.dtype,
                                                   "seconds": options.seconds})
    print("batch\thidden\tsteps\tchoice\tus\tloop us\tscan us\tsum us")
    for row in sweep["shapes"]:
        print(*(f"{row[key]:.1f}" if isinstance(row[key], float) else row[key]
                for key in ("batch", "hidden", "steps", "choice", "microseconds",
                            "loop_microseconds", "scan_microseconds", "sum_microseconds")),
              sep="\t", flush=True)
    result = {"sweep": sweep, "cells": cell_table(options.rnnc, options.device, options.seconds)}
    if options.device == "cuda":
        result["large_picoseconds"] = large_table(options.rnnc, options.seconds)
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    if options.svg:
        draw(sweep, options.svg)


if __name__ == "__main__":
    main()
