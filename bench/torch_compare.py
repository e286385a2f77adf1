"""Time per step of an LSTM in rnnc and in torch.nn.LSTM, in one run on one device.

    python3 bench/torch_compare.py --device cuda --rnnc build/default/tools/rnnc
    python3 bench/torch_compare.py --device cpu  --rnnc build/default/tools/rnnc
    python3 bench/torch_compare.py --device cuda --rnnc … --compile      # compile times, rnnc only

Medians of whole forward passes divided by their steps: CUDA events on a GPU, a steady clock on the
CPU. TF32 is off on both sides. Run it from the repository's root. Needs torch.
"""

import argparse
import math
import statistics
import time
from pathlib import Path

import torch
from torch import nn

from common import RESULTS, cpu_name, run_bench, write_result

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# (dtype, steps, batch, hidden); the input is as wide as the hidden state.
SHAPES = {
    "cuda": [(dtype, 512, 16, hidden) for dtype in ("f32", "bf16") for hidden in (512, 1024)],
    "cpu": [("f32", 128, batch, hidden) for hidden in (256, 1024) for batch in (1, 16)],
}


def time_torch(device, dtype, steps, batch, hidden, repeats, cell="LSTM", layers=1):
    """Median microseconds per step."""
    torch.manual_seed(1)
    module = getattr(nn, cell)(hidden, hidden, layers).to(device, DTYPES[dtype])
    x = torch.rand(steps, batch, hidden, device=device, dtype=DTYPES[dtype]) * 2 - 1
    times = []
    with torch.no_grad():
        for _ in range(5):
            module(x)
        for _ in range(repeats):
            if device == "cpu":
                begin = time.perf_counter()
                module(x)
                times.append(time.perf_counter() - begin)
            else:
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                torch.cuda.synchronize()
                begin.record()
                module(x)
                end.record()
                end.synchronize()
                times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times) / steps * 1e6


def run_lstm(arguments, dtype, steps, batch, hidden, options):
    shape = {"device": arguments.device, "dtype": dtype, "steps": steps, "batch": batch}
    return run_bench(
        arguments.rnnc,
        ["examples/cells/lstm.rnn"],
        {"I": hidden, "H": hidden},
        shape | {"threads": arguments.threads} | options,
    )


def device_name(device):
    return torch.cuda.get_device_name() if device == "cuda" else cpu_name()


def compare(arguments):
    rows = []
    print(
        f"{'dtype':6}{'T':>5}{'B':>4}{'H':>6}"
        f"{'rnnc µs/step':>14}{'torch µs/step':>15}{'torch/rnnc':>12}"
    )
    for shape in SHAPES[arguments.device]:
        dtype, steps, batch, hidden = shape
        theirs = time_torch(arguments.device, *shape, arguments.repeats)
        ours = run_lstm(arguments, *shape, {"runs": arguments.repeats})["microseconds_per_step"]
        rows.append(
            {"dtype": dtype, "steps": steps, "batch": batch, "hidden": hidden}
            | {
                "rnnc_us_per_step": ours,
                "torch_us_per_step": theirs,
                "torch_over_rnnc": theirs / ours,
            }
        )
        print(
            f"{dtype:6}{steps:5}{batch:4}{hidden:6}{ours:14.2f}{theirs:15.2f}{theirs / ours:12.2f}",
            flush=True,
        )
    mean = math.exp(statistics.fmean(math.log(row["torch_over_rnnc"]) for row in rows))
    print(f"geometric mean of torch/rnnc: {mean:.2f}")
    return {"rows": rows, "geometric_mean": mean}


def compile_times(arguments):
    rows = []
    print(f"{'dtype':6}{'T':>5}{'B':>4}{'H':>6}{'cold ms':>10}{'cached ms':>11}")
    for dtype, steps, batch, hidden in SHAPES[arguments.device]:
        times = run_lstm(arguments, dtype, steps, batch, hidden, {"compile": True})
        cold, cached = times["cold_seconds"], times["cached_seconds"]
        rows.append({"dtype": dtype, "steps": steps, "batch": batch, "hidden": hidden})
        rows[-1] |= {"cold_seconds": cold, "cached_seconds": cached}
        print(
            f"{dtype:6}{steps:5}{batch:4}{hidden:6}{cold * 1e3:10.1f}{cached * 1e3:11.1f}",
            flush=True,
        )
    return {"rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=SHAPES, default="cpu")
    parser.add_argument("--rnnc", default="build/default/tools/rnnc", help="the program rnnc")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads, on both sides")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--compile", action="store_true", help="compile times instead")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    name = f"lstm_{'compile' if arguments.compile else 'forward'}_{arguments.device}"
    header = {
        "device": device_name(arguments.device),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version() if arguments.device == "cuda" else None,
        "threads": arguments.threads if arguments.device == "cpu" else None,
    }
    print(f"{header['device']}, torch {header['torch']}")
    result = header | (compile_times if arguments.compile else compare)(arguments)
    write_result(arguments.out / f"{name}.json", result)


if __name__ == "__main__":
    main()
