"""Time per step and speedup over cuDNN against H, B and T, from what recurrences.py wrote.

    python3 bench/plot_recurrences.py bench/results/recurrences.json --out recurrences.svg

Of rnnc and of cuDNN the better of plain launches and of replays of a CUDA graph. The file's ending
says what it is: .svg, .png. Needs matplotlib.
"""

import argparse
import json
from pathlib import Path

from common import RESULTS
from recurrence_shapes import REFERENCE, SWEEPS

try:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
except ImportError:
    raise SystemExit("plots need matplotlib: pip install matplotlib") from None

AXES = {"hidden": "H", "batch": "B", "steps": "T"}
LINES = {  # key of a row: what it is, and how it is drawn
    "us": ("rnnc, plain or replayed", {"color": "tab:blue", "marker": "o"}),
    "cudnn_us": ("cuDNN, best algorithm", {"color": "tab:green", "marker": "s"}),
    "torch_us": ("torch.nn", {"color": "tab:orange", "marker": "^"}),
    "floor_us": ("floor of arithmetic and memory", {"color": "gray", "linestyle": ":"}),
}


def title(axis):
    """What stays the same."""
    fixed = [f"{AXES[name]} {getattr(REFERENCE, name)}" for name in AXES if name != axis]
    return f"{REFERENCE.cell.upper()} {REFERENCE.dtype}, {', '.join(fixed)}"


def draw(plot, rows, axis, lines):
    top = max((row[key] for row in rows for key in lines if key in row), default=1)
    for key, (label, style) in lines.items():
        points = sorted((row[axis], row[key]) for row in rows if key in row)
        if points:
            plot.plot(*zip(*points), label=label, markersize=4, **style)
    ticks = sorted(row[axis] for row in rows)
    plot.set_xscale("log", base=2)
    plot.set_xticks(ticks, [str(tick) for tick in ticks])
    plot.set_xlabel(AXES[axis])
    plot.set_ylim(0, 1.1 * top)
    plot.grid(alpha=0.3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", nargs="?", type=Path, default=RESULTS / "recurrences.json")
    parser.add_argument("--out", type=Path, help="default: the JSON's name, ending in .svg")
    arguments = parser.parse_args()
    result = json.loads(arguments.json.read_text())
    names = {axis: {str(case) for case in cases} for axis, cases in SWEEPS.items()}
    sweeps = {
        axis: [row for row in result["rows"] if row["name"] in names[axis]] for axis in SWEEPS
    }
    if not all(sweeps.values()):
        raise SystemExit(f"{arguments.json} has no sweeps: recurrences.py --only sweep makes them")

    figure, plots = pyplot.subplots(2, len(sweeps), figsize=(13, 7), layout="constrained")
    figure.suptitle(f"Forward pass on {result.get('machine', 'a GPU')}, {result['date']}")
    for column, (axis, rows) in zip(plots.T, sweeps.items()):
        draw(column[0], rows, axis, LINES)
        column[0].set_title(title(axis), fontsize="medium")
        draw(column[1], rows, axis, {"ratio": ("cuDNN / rnnc", LINES["us"][1])})
        column[1].axhline(1, color="gray", linewidth=1)
    plots[0][0].set_ylabel("µs per step")
    plots[1][0].set_ylabel("speedup over cuDNN's best")
    plots[0][0].legend(fontsize="small")
    out = arguments.out or arguments.json.with_suffix(".svg")
    figure.savefig(out, dpi=150)
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
