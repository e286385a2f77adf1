"""Training time per step of LSTM and GRU in rnnc and in torch.nn, in one run on one device.

    python3 bench/training.py --device cuda --rnnc build/default/tools/rnnc [--cudnn cudnn_rnn]
    python3 bench/training.py --device cpu  --rnnc build/default/tools/rnnc

Forward and backward with the gradients of all params and the input, medians of whole passes divided
by their steps: CUDA events on a GPU, a steady clock on the CPU. TF32 is off on both sides. `--cudnn`
names the program made of cudnn_rnn.cpp: the fastest of cuDNN's algorithms, plain or as a graph, with its
reserve and workspace. The ratio is that of the faster peer. Run it from the repository's root. Needs
torch.
"""

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path

import torch
from torch import nn

from common import run_bench

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# (dtype, steps, layers, batch, hidden); the input is as wide as the hidden state.
SHAPES = {
    "cuda": [
        (dtype, 512, layers, batch, hidden)
        for dtype in ("f32", "bf16")
        for layers, batch, hidden in (
            (1, 64, 1024), (1, 128, 1024), (4, 64, 1024), (1, 16, 256), (1, 16, 512),
            (1, 16, 1024), (1, 64, 512),
        )
    ],
    "cpu": [("f32", 100, 1, batch, hidden) for hidden in (128, 512) for batch in (1, 16, 64)],
}
FILES = {
    "LSTM": ("examples/cells/lstm.rnn", "examples/networks/stacked_lstm.rnn"),
    "GRU": ("examples/cells/gru.rnn", "examples/networks/stacked_gru.rnn"),
}


def time_torch(device, cell, dtype, steps, layers, batch, hidden, seconds=1.0):
    """Median microseconds per step."""
    torch.manual_seed(1)
    module = getattr(nn, cell)(hidden, hidden, layers).to(DTYPES[dtype]).to(device)
    module.flatten_parameters()
    shape = (steps, batch, hidden)
    x = torch.randn(shape, device=device, dtype=DTYPES[dtype], requires_grad=True)
    gradient = torch.randn(shape, device=device, dtype=DTYPES[dtype])

    def step():
        module(x)[0].backward(gradient)

    for _ in range(3):
        step()
    times = []
    start = time.perf_counter()
    while len(times) < 5 or time.perf_counter() - start < seconds:
        if device == "cpu":
            begin = time.perf_counter()
            step()
            times.append(time.perf_counter() - begin)
        else:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            step()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times) / steps * 1e6


def time_rnnc(arguments, cell, dtype, steps, layers, batch, hidden):
    """What `rnnc bench --backward` measures."""
    file = FILES[cell][0 if layers == 1 else 1]
    dims = {"I": hidden, "H": hidden} if layers == 1 else {"F": hidden, "H": hidden, "L": layers}
    shape = {"device": arguments.device, "dtype": dtype, "steps": steps, "batch": batch}
    if arguments.device == "cpu":
        shape["threads"] = arguments.threads
    return run_bench(
        arguments.rnnc, [file, "--backward", "--residuals", arguments.residuals], dims, shape
    )


def measure_cudnn(program, cell, dtype, steps, layers, batch, hidden):
    """The fastest variant: its microseconds per step, name, and megabytes of memory."""
    shape = f"{cell}:{layers}:{hidden}:{batch}:{steps}:{dtype}"
    command = [program, "--backward", "--seconds", "0.3", shape]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    name = result["best"].removesuffix(", graph")
    (best,) = [variant for variant in result["variants"] if variant["name"] == name]
    memory = (best["workspace_bytes"] + best["reserve_bytes"]) / 1e6
    return result["microseconds_per_step"], result["best"], memory


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rnnc", type=Path, default=Path("build/default/tools/rnnc"))
    parser.add_argument("--device", choices=SHAPES, default="cuda")
    parser.add_argument("--threads", type=int, default=2, help="on the CPU")
    parser.add_argument("--cudnn", type=Path, help="the program cudnn_rnn")
    parser.add_argument("--residuals", choices=["all", "least", "auto"], default="auto")
    parser.add_argument("--only", default="", help="shapes that have this in their names")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    ratios = []
    print(f"{'shape':24} {'rnnc':>8} {'forward':>8} {'ratio':>6} {'floor':>8}"
          f" {'reserve':>8} {'workspace':>9}  peers; us per step, MB")
    for cell in FILES:
        for dtype, steps, layers, batch, hidden in SHAPES[arguments.device]:
            name = f"{cell} {layers}x{batch}x{hidden} {dtype}"
            if arguments.only not in name:
                continue
            ours = time_rnnc(arguments, cell, dtype, steps, layers, batch, hidden)
            peer = time_torch(arguments.device, cell, dtype, steps, layers, batch, hidden)
            beside = f"torch {peer:.2f}"
            if arguments.cudnn:
                fastest, how, memory = measure_cudnn(
                    arguments.cudnn, cell, dtype, steps, layers, batch, hidden
                )
                beside += f", cuDNN {fastest:.2f} ({how}; {memory:.0f} MB)"
                peer = min(peer, fastest)
            step = ours["microseconds_per_step"]
            ratios.append(peer / step)
            print(f"{name:24} {step:8.2f} {ours['forward_microseconds_per_step']:8.2f}"
                  f" {peer / step:6.2f} {ours['floor_microseconds_per_step']:8.2f}"
                  f" {ours['reserve_bytes'] / 1e6:8.0f} {ours['workspace_bytes'] / 1e6:9.0f}"
                  f"  {beside}", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}, worst {min(ratios):.2f}")


if __name__ == "__main__":
    main()
