"""Training time per step of LSTM and GRU in rnnc and in torch.nn, in one run on one device.

    python3 bench/training.py --device cuda --rnnc build/default/tools/rnnc [--cudnn cudnn_rnn]
    python3 bench/training.py --device cpu  --rnnc build/default/tools/rnnc
    python3 bench/training.py --drawn 40 --seed 2 --dtype bf16 --cudnn cudnn_rnn --no-torch

Forward and backward with the gradients of all params and the input, medians of whole passes divided
by their steps: CUDA events on a GPU, a steady clock on the CPU. TF32 is off on both sides, but for
shapes of tf32. `--cudnn` names the program made of cudnn_rnn.cpp: the fastest of cuDNN's algorithms,
plain or as a graph, with its reserve and workspace. The ratio is that of the faster peer. `--drawn`
takes so many shapes that a seed draws in place of the list. `--json` keeps all figures. Run it from
the repository's root. Needs torch, unless with `--no-torch`.
"""

import argparse
import json
import random
import statistics
import subprocess
import time
from pathlib import Path

from common import run_bench

DTYPES = ("f32", "tf32", "bf16", "f16")
# (dtype, steps, layers, batch, hidden); the input is as wide as the hidden state.
SHAPES = {
    "cuda": [
        (dtype, 512, layers, batch, hidden)
        for dtype in ("f32", "bf16")
        for layers, batch, hidden in (
            (1, 64, 1024), (1, 128, 1024), (4, 64, 1024), (1, 16, 256), (1, 16, 512),
            (1, 16, 1024), (1, 64, 512),
        )
    ]
    + [
        (dtype, 512, 1, batch, hidden)
        for dtype, batch, hidden in (
            ("bf16", 16, 2048), ("f16", 16, 256), ("f16", 16, 512), ("f16", 16, 1024),
            ("f16", 64, 1024),
        )
    ]
    + [("bf16", 512, 4, 16, 512), ("bf16", 512, 8, 1, 512), ("tf32", 512, 1, 16, 1024)]
    + [("f32", 512, 1, 1, 256), ("f32", 512, 1, 1, 1024)],
    "cpu": [("f32", 100, 1, batch, hidden) for hidden in (128, 512) for batch in (1, 16, 64)],
}
FILES = {
    "LSTM": ("examples/cells/lstm.rnn", "examples/networks/stacked_lstm.rnn"),
    "GRU": ("examples/cells/gru.rnn", "examples/networks/stacked_gru.rnn"),
}


def drawn(count, seed, dtype):
    """(cell, shape) of batches of 1 to 256 and 64 to 2048 hidden units, half of them odd sizes, and 1
    to 4 layers: few enough bytes for any GPU."""
    engine = random.Random(seed)
    result = []
    while len(result) < count:
        cell = engine.choice(list(FILES))
        batch = round(2 ** engine.uniform(0, 8))
        hidden = round(2 ** engine.uniform(6, 11))
        if engine.random() < 0.5:
            hidden = max(64, hidden // 64 * 64)
        layers = engine.choice((1, 1, 2, 3, 4))
        if layers * batch * hidden <= 256 * 1024:
            result.append((cell, (dtype, 512, layers, batch, hidden)))
    return result


def time_torch(arguments, cell, dtype, steps, layers, batch, hidden, seconds=1.0):
    """Median microseconds per step."""
    import torch

    device = arguments.device
    torch.set_num_threads(arguments.threads)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    kind = {"bf16": torch.bfloat16, "f16": torch.float16}.get(dtype, torch.float32)
    torch.manual_seed(1)
    module = getattr(torch.nn, cell)(hidden, hidden, layers).to(kind).to(device)
    module.flatten_parameters()
    shape = (steps, batch, hidden)
    x = torch.randn(shape, device=device, dtype=kind, requires_grad=True)
    gradient = torch.randn(shape, device=device, dtype=kind)

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
    shape = {"device": arguments.device, "steps": steps, "batch": batch}
    shape |= {"dtype": "f32", "tf32": True} if dtype == "tf32" else {"dtype": dtype}
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


def measure(arguments, cell, shape):
    """All figures of a shape, and a line of them."""
    dtype, steps, layers, batch, hidden = shape
    ours = time_rnnc(arguments, cell, *shape)
    row = {"shape": f"{cell} {layers}x{batch}x{hidden} {dtype}", "steps": steps, "rnnc": ours}
    peers = {}
    beside = []
    if not arguments.no_torch:
        peers["torch"] = time_torch(arguments, cell, *shape)
        beside.append(f"torch {peers['torch']:.2f}")
    if arguments.cudnn:
        peers["cudnn"], how, memory = measure_cudnn(arguments.cudnn, cell, *shape)
        beside.append(f"cuDNN {peers['cudnn']:.2f} ({how}; {memory:.0f} MB)")
    step = ours["microseconds_per_step"]
    row |= {"peers": peers, "ratio": min(peers.values()) / step}
    print(f"{row['shape']:24} {step:8.2f} {ours['forward_microseconds_per_step']:8.2f}"
          f" {row['ratio']:6.2f} {ours['floor_microseconds_per_step']:8.2f}"
          f" {ours['reserve_bytes'] / 1e6:8.0f} {ours['workspace_bytes'] / 1e6:9.0f}"
          f"  {', '.join(beside)}", flush=True)
    return row


def shapes_of(arguments):
    if arguments.drawn:
        return drawn(arguments.drawn, arguments.seed, arguments.dtype)
    return [(cell, shape) for cell in FILES for shape in SHAPES[arguments.device]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rnnc", type=Path, default=Path("build/default/tools/rnnc"))
    parser.add_argument("--device", choices=SHAPES, default="cuda")
    parser.add_argument("--threads", type=int, default=2, help="on the CPU")
    parser.add_argument("--cudnn", type=Path, help="the program cudnn_rnn")
    parser.add_argument("--no-torch", action="store_true", help="cuDNN is the only peer")
    parser.add_argument("--residuals", choices=["all", "least", "auto"], default="auto")
    parser.add_argument("--only", default="", help="shapes that have this in their names")
    parser.add_argument("--drawn", type=int, default=0, help="so many shapes of a seed instead")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16", help="of drawn shapes")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    arguments = parser.parse_args()
    if arguments.no_torch and not arguments.cudnn:
        parser.error("--no-torch leaves no peer: name --cudnn")
    print(f"{'shape':24} {'rnnc':>8} {'forward':>8} {'ratio':>6} {'floor':>8}"
          f" {'reserve':>8} {'workspace':>9}  peers; us per step, MB")
    rows = []
    for cell, shape in shapes_of(arguments):
        dtype, _, layers, batch, hidden = shape
        if arguments.only in f"{cell} {layers}x{batch}x{hidden} {dtype}":
            rows.append(measure(arguments, cell, shape))
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    ratios = [row["ratio"] for row in rows]
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}, worst {min(ratios):.2f}")


if __name__ == "__main__":
    main()
