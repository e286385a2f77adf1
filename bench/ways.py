"""How good the cost model's way of running a recurrence is: each strategy and launches, measured.

    python3 bench/ways.py --rnnc build/default/tools/rnnc

For each shape: microseconds per step of the model's own choice, of what `--tune` chooses, and of each
way that can be asked for (calls launched plainly or replayed as a CUDA graph, the better), and how
much slower the two choices are than the best of all. Mostly of many rows, where the model errs most.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor

from common import add_output_argument, run_bench, write_result
from recurrence_shapes import Case

STEPS = 128
SHAPES = [
    Case(cell, batch, hidden, dtype, steps=STEPS)
    for cell, batch, hidden, dtype in [
        ("lstm", 16, 1024, "bf16"),
        ("lstm", 128, 512, "bf16"),
        ("lstm", 128, 1024, "bf16"),
        ("lstm", 256, 1024, "bf16"),
        ("lstm", 512, 1024, "bf16"),
        ("lstm", 256, 1536, "bf16"),
        ("lstm", 128, 2048, "bf16"),
        ("gru", 256, 1024, "bf16"),
        ("gru", 192, 2048, "bf16"),
        ("gru_reset_before", 300, 512, "bf16"),
        ("lem", 320, 512, "bf16"),
        ("lstm", 128, 1024, "tf32"),
        ("lstm", 256, 1024, "tf32"),
        ("lstm", 128, 512, "f32"),
        ("lstm", 128, 1024, "f32"),
        ("gru", 192, 1024, "f32"),
    ]
]
CHOICES = {"model": {}, "tuned": {"tune": True}}
WAYS = {"launches": {"passes": "-resident"}}
WAYS |= {name: {"strategy": name} for name in ("block", "cluster", "grid", "hybrid", "split-k")}


def measure(arguments, case, options):
    """Microseconds per step; None where a strategy cannot be."""
    words, dims = case.source
    try:
        result = run_bench(arguments.rnnc, words, dims, case.options | options)
    except SystemExit as problem:
        if "cannot run with strategy" in str(problem):
            return None
        raise
    return min(result["microseconds_per_step"], result["replayed_microseconds_per_step"])


def warm(arguments):
    """Compiles all but what tuning tries, a few at once, since measuring must be alone."""
    runs = [(case, way) for case in SHAPES for way in WAYS.values()]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(lambda run: measure(arguments, run[0], run[1] | {"runs": 1}), runs))


def compare(arguments, case):
    timed = {"seconds": arguments.seconds}
    row = {"shape": str(case)}
    times = {way: measure(arguments, case, options | timed) for way, options in WAYS.items()}
    row["us"] = {way: us for way, us in times.items() if us is not None}
    best = min(row["us"], key=row["us"].get)
    row["best"] = best
    for choice, options in CHOICES.items():
        us = measure(arguments, case, options | timed)
        row[choice] = {"us": us, "loss": us / min(us, row["us"][best]) - 1}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rnnc", default="build/default/tools/rnnc", help="the program rnnc")
    parser.add_argument("--seconds", type=float, default=0.1, help="for each way")
    parser.add_argument("--jobs", type=int, default=4, help="kernels to compile at once, first")
    add_output_argument(parser, "ways.json")
    arguments = parser.parse_args()
    warm(arguments)
    rows = []
    for case in SHAPES:
        rows.append(compare(arguments, case))
        row = rows[-1]
        ways = ", ".join(f"{way} {us:.2f}" for way, us in row["us"].items())
        choices = ", ".join(
            f"{choice} {row[choice]['us']:.2f} (+{100 * row[choice]['loss']:.0f} %)"
            for choice in CHOICES
        )
        print(f"{row['shape']:32} {choices}; {ways}", flush=True)
        write_result(arguments.json, {"steps": STEPS, "rows": rows})
    for choice in CHOICES:
        losses = [row[choice]["loss"] for row in rows]
        print(f"{choice}: {100 * sum(losses) / len(losses):.1f} % slower than the best in the "
              f"mean, {100 * max(losses):.0f} % at most")


if __name__ == "__main__":
    main()
