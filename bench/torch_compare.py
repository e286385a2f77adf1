"""Time per step of an LSTM in rnnc and in torch.nn.LSTM, in one run on one device.

    python3 bench/torch_compare.py --device cuda --bench build/default/bench/rnnc_bench
    python3 bench/torch_compare.py --device cpu  --bench build/default/bench/rnnc_bench
    python3 bench/torch_compare.py --device cuda --bench … --compile      # compile times, rnnc only

Medians of whole forward passes divided by their steps: CUDA events on a GPU, a steady clock on the
CPU. TF32 is off on both sides. Run it from the repository's root. Needs torch.
"""

import argparse
import datetime
import json
import math
import statistics
import subprocess
import time
from pathlib import Path

import torch
from torch import nn

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# (dtype, steps, batch, hidden); the input is as wide as the hidden state.
SHAPES = {
    "cuda": [(dtype, 512, 16, hidden) for dtype in ("f32", "bf16") for hidden in (512, 1024)],
    "cpu": [("f32", 128, batch, hidden) for hidden in (256, 1024) for batch in (1, 16)],
}


def time_torch(device, dtype, steps, batch, hidden, repeats):
    """Median microseconds per step."""
    torch.manual_seed(1)
    lstm = nn.LSTM(hidden, hidden).to(device, DTYPES[dtype])
    x = torch.rand(steps, batch, hidden, device=device, dtype=DTYPES[dtype]) * 2 - 1
    times = []
    with torch.no_grad():
        for _ in range(5):
            lstm(x)
        for _ in range(repeats):
            if device == "cpu":
                begin = time.perf_counter()
                lstm(x)
                times.append(time.perf_counter() - begin)
            else:
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                torch.cuda.synchronize()
                begin.record()
                lstm(x)
                end.record()
                end.synchronize()
                times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times) / steps * 1e6


def run_bench(arguments, dtype, steps, batch, hidden, *more):
    command = [arguments.bench, "--device", arguments.device, "--dtype", dtype]
    command += ["--steps", steps, "--batch", batch, "--hidden", hidden]
    command += ["--threads", arguments.threads, "--repeats", arguments.repeats, *more]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(result.stderr.strip())
    return json.loads(result.stdout)


def device_name(device):
    if device == "cuda":
        return torch.cuda.get_device_name()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return "cpu"


def compare(arguments):
    rows = []
    print(
        f"{'dtype':6}{'T':>5}{'B':>4}{'H':>6}"
        f"{'rnnc µs/step':>14}{'torch µs/step':>15}{'torch/rnnc':>12}"
    )
    for shape in SHAPES[arguments.device]:
        dtype, steps, batch, hidden = shape
        theirs = time_torch(arguments.device, *shape, arguments.repeats)
        ours = run_bench(arguments, *shape)["microseconds_per_step"]
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
        times = run_bench(arguments, dtype, steps, batch, hidden, "--compile")
        rows.append({"dtype": dtype, "steps": steps, "batch": batch, "hidden": hidden} | times)
        cold, cached = times["cold_seconds"] * 1e3, times["cached_seconds"] * 1e3
        print(f"{dtype:6}{steps:5}{batch:4}{hidden:6}{cold:10.1f}{cached:11.1f}", flush=True)
    return {"rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=SHAPES, default="cpu")
    parser.add_argument(
        "--bench", default="build/default/bench/rnnc_bench", help="the program rnnc_bench"
    )
    parser.add_argument("--threads", type=int, default=2, help="CPU threads, on both sides")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--compile", action="store_true", help="compile times instead")
    parser.add_argument("--out", type=Path, help="folder for the JSON; default: bench/results")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    name = f"lstm_{'compile' if arguments.compile else 'forward'}_{arguments.device}"
    header = {
        "device": device_name(arguments.device),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version() if arguments.device == "cuda" else None,
        "threads": arguments.threads if arguments.device == "cpu" else None,
    }
    print(f"{header['device']}, torch {header['torch']}, {header['date']}")
    result = header | (compile_times if arguments.compile else compare)(arguments)
    folder = arguments.out or Path(__file__).resolve().parent / "results"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
