"""Shipped cells whose recurrences need no products, as loops over their steps: training, and its forward half; two programs
side by side.

    python3 bench/loops.py --beside OLD_RNNC [--rnnc RNNC] [--device cuda] [--cells s4d,mingru]
                           [--strategy loop] [--seconds 0.05]

A row has microseconds per step of both halves and of the forward one, of the old program and the new, one measured right
behind the other, and old by new; the last line has the geometric means of these. A CPU has no bf16.
"""

import argparse
import re
import statistics

from common import run_bench
from recurrence_shapes import ROOT

CELLS = "s4d rwkv4 unicornn rg_lru minlstm mingru mingru_log lru hgrn brc indrnn qrnn sru".split()
# Units, rows, steps.
SHAPES = [(96, 16, 100, "bf16"), (512, 8, 512, "f32"), (512, 8, 512, "bf16"), (1024, 64, 256, "bf16")]
TIMES = ("microseconds_per_step", "forward_microseconds_per_step")


def dims_of(cell, size):
    """All dims that have no value of their own."""
    header = re.search(r"^cell \w+\[([^\]]*)\]", (ROOT / f"examples/cells/{cell}.rnn").read_text(), re.M)
    return {name.strip(): size for name in header[1].split(",") if "=" not in name}


def measure(options, rnnc, cell, size, batch, steps, dtype):
    words = {"batch": batch, "steps": steps, "dtype": dtype, "device": options.device, "backward": True,
             "strategy": options.strategy, "seconds": options.seconds}
    result = run_bench(rnnc, [ROOT / f"examples/cells/{cell}.rnn"], dims_of(cell, size), words)
    return [result[time] for time in TIMES]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--beside", required=True, metavar="OLD_RNNC")
    parser.add_argument("--rnnc", default=ROOT / "build/default/tools/rnnc")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--cells", type=lambda text: text.split(","), default=CELLS)
    parser.add_argument("--strategy", default="loop")
    parser.add_argument("--seconds", type=float, default=0.05)
    options = parser.parse_args()
    ratios = []
    print("cell        H x B, T, type         us a step: old  new  ratio      forward: old  new  ratio")
    for cell in options.cells:
        for size, batch, steps, dtype in SHAPES:
            if options.device == "cpu" and dtype == "bf16":
                continue
            old, new = (measure(options, rnnc, cell, size, batch, steps, dtype)
                        for rnnc in (options.beside, options.rnnc))
            ratios.append([a / b for a, b in zip(old, new)])
            values = [f"{a:8.4f} {b:8.4f} {a / b:5.2f}" for a, b in zip(old, new)]
            print(f"{cell:11} {size:4} x {batch:2}, {steps:3}, {dtype:4}  " + "      ".join(values), flush=True)
    means = [statistics.geometric_mean(column) for column in zip(*ratios)]
    print("geometric means: " + ", forward ".join(f"{mean:.3f}" for mean in means))


if __name__ == "__main__":
    main()
