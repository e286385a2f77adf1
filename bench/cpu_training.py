"""Training LSTM and GRU on the CPU from PyTorch: rnnc.torch beside torch.nn, in one run.

    RNNC_LIBRARY=… PYTHONPATH=python python3 bench/cpu_training.py [--threads 2] [--rounds 5] [--json FILE]

A call is a module's forward, the sum of its outputs, and backward with all gradients: those of the input, of the params
and of nothing else. The two take turns in every round; what counts is the least of their rounds, in milliseconds.
"""

import argparse
import json
import math
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import rnnc.torch
import torch

# layers, steps, batch, units
SHAPES = [
    (1, 100, 1, 64), (1, 100, 16, 64), (1, 50, 64, 128), (2, 50, 16, 128), (1, 200, 1, 256),
    (1, 100, 16, 256), (1, 100, 4, 384), (1, 60, 33, 300), (1, 30, 64, 512),
]  # fmt: skip


def seconds_of(module, x, training):
    begin = time.perf_counter()
    if training:
        module.zero_grad(set_to_none=True)
        module(x.detach().requires_grad_())[0].sum().backward()
    else:
        with torch.no_grad():
            module(x)
    return time.perf_counter() - begin


def compare(cell, shape, rounds):
    layers, steps, batch, units = shape
    x = torch.randn(steps, batch, units)
    sides = {
        "rnnc": getattr(rnnc.torch, cell)(units, units, layers),
        "torch": getattr(torch.nn, cell)(units, units, layers),
    }
    row = {"cell": cell, "layers": layers, "steps": steps, "batch": batch, "units": units}
    for kind, training in (("forward", False), ("training", True)):
        times = {name: [] for name in sides}
        for turn in range(rounds + 1):
            for name, module in sides.items():
                seconds = seconds_of(module, x, training)
                if turn > 0:  # the first makes code and memory
                    times[name].append(seconds * 1e3)
        row |= {f"{name}_{kind}_ms": round(min(taken), 3) for name, taken in times.items()}
        row[f"{kind}_ratio"] = round(min(times["torch"]) / min(times["rnnc"]), 3)
    return row


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return "unknown"


def mean(rows, key):
    return math.exp(sum(math.log(row[key]) for row in rows) / len(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cell", nargs="+", choices=["LSTM", "GRU"], default=["LSTM", "GRU"])
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    print("cell  L    T   B    H   forward: rnnc    torch  ratio   training: rnnc    torch  ratio  load")
    rows = []
    for cell in arguments.cell:
        for shape in SHAPES:
            row = compare(cell, shape, arguments.rounds)
            row["load"] = round(os.getloadavg()[0], 1)
            rows.append(row)
            numbers = [row[f"{side}_{kind}_ms"] for kind in ("forward", "training") for side in ("rnnc", "torch")]
            print(
                "{:<4} {:2} {:4} {:3} {:4}   ".format(cell, *shape)
                + "{:13.2f} {:8.2f} {:6.2f}".format(*numbers[:2], row["forward_ratio"])
                + "{:17.2f} {:8.2f} {:6.2f} {:5.1f}".format(*numbers[2:], row["training_ratio"], row["load"]),
                flush=True,
            )
    means = {kind: round(mean(rows, f"{kind}_ratio"), 3) for kind in ("forward", "training")}
    worst = {kind: min(row[f"{kind}_ratio"] for row in rows) for kind in ("forward", "training")}
    print(f"torch / rnnc, geometric means: {means}, worst: {worst}")
    if arguments.json:
        result = {
            "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "device": processor(),
            "torch": torch.__version__,
            "threads": arguments.threads,
            "geometric_means": means,
            "worst": worst,
            "rows": rows,
        }
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
