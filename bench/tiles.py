"""How well the cost model ranks tiles of resident recurrences: each of the best few, measured.

    python3 bench/tiles.py --rnnc build/default/tools/rnnc
    python3 bench/tiles.py --rnnc … --backward --drawn 60 --seed 5 --tiles 4

For each shape: the model's time per step beside the measured one (of calls launched plainly or
replayed as a CUDA graph, the better), the rank correlation of the two (Spearman), and how much
slower the model's pick is than the best that was measured. With --backward both are of the
recurrences of the backward half alone, as `rnnc profile` times them. All tiles are compiled first,
side by side.
"""

import argparse
import os
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from common import add_output_argument, run_bench, run_json, write_result

# cell, H, B, dtype
SHAPES = [
    ("lstm", 256, 16, "bf16"),
    ("lstm", 512, 16, "bf16"),
    ("lstm", 1024, 16, "bf16"),
    ("lstm", 1024, 64, "bf16"),
    ("lstm", 1024, 76, "bf16"),
    ("lstm", 1405, 48, "bf16"),
    ("lstm", 2048, 16, "bf16"),
    ("lstm", 640, 63, "tf32"),
    ("lstm", 1024, 16, "tf32"),
    ("lstm", 1085, 43, "tf32"),
    ("lstm", 256, 1, "f32"),
    ("lstm", 1024, 1, "f32"),
    ("lstm", 1024, 16, "f32"),
    ("gru", 1024, 16, "bf16"),
    ("gru", 1280, 2, "f16"),
    ("gru", 1792, 56, "f16"),
    ("gru", 277, 3, "f32"),
    ("gru", 1152, 24, "f32"),
    ("gru_reset_before", 1024, 16, "bf16"),
    ("layernorm_lstm", 1024, 16, "bf16"),
]


def drawn(count, seed):
    """LSTMs and GRUs of 1 to 128 rows and 128 to 2048 hidden units, half of them odd sizes."""
    engine = random.Random(seed)
    result = []
    while len(result) < count:
        hidden = round(2 ** engine.uniform(7, 11))
        if engine.random() < 0.5:
            hidden = hidden // 64 * 64
        cell, batch = engine.choice(("lstm", "gru")), round(2 ** engine.uniform(0, 7))
        dtype = engine.choice(("bf16", "bf16", "f16", "tf32", "f32"))
        if batch * hidden <= 64 * 1024:
            result.append((cell, hidden, batch, dtype))
    return result


def measure(arguments, shape, rank, seconds=None):
    """Tiles in words, and microseconds per step as predicted and as measured."""
    cell, hidden, batch, dtype = shape
    options = {"device": "cuda", "dtype": "f32" if dtype == "tf32" else dtype, "batch": batch}
    options |= {"steps": arguments.steps, "passes": "all", "tile-rank": rank}
    options |= {"seconds": arguments.seconds if seconds is None else seconds}
    if dtype == "tf32":
        options |= {"tf32": True}
    dims = {"I": hidden, "H": hidden}
    words = [f"examples/cells/{cell}.rnn"]
    if not arguments.backward:
        result = run_bench(arguments.rnnc, words, dims, options)
        us = min(result["microseconds_per_step"], result["replayed_microseconds_per_step"])
        return "; ".join(result["tiles"]), result["predicted_microseconds_per_step"], us
    options |= {"backward": True, "json": "-"}
    result = run_json(arguments.rnnc, ["profile", *words], dims, options)
    launches = [launch for stage in result["backward"]["stages"] for launch in stage["launches"]
                if launch["kind"] == "recurrence"]
    predicted = sum(launch["cost"]["seconds"] * launch["runs"] for launch in launches)
    us = sum(launch["measured_seconds"] for launch in launches)
    per_step = 1e6 / arguments.steps
    return "; ".join(launch["strategy"] for launch in launches), predicted * per_step, us * per_step


def compile_all(arguments, shapes):
    """Fills the kernel cache."""

    def compile_one(shape):
        for rank in range(arguments.tiles):
            measure(arguments, shape, rank, seconds=0.001)

    start = time.monotonic()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(compile_one, shapes))
    print(f"compiled in {time.monotonic() - start:.0f} s", flush=True)


def ranks(values):
    """Places in ascending order; equal values share the mean of theirs."""
    order = sorted(values)
    return [order.index(value) + (order.count(value) - 1) / 2 for value in values]


def correlation(xs, ys):
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys))
    spread_x = sum((x - mean_x) ** 2 for x in xs)
    spread_y = sum((y - mean_y) ** 2 for y in ys)
    return covariance / (spread_x * spread_y) ** 0.5 if spread_x and spread_y else 0.0


def compare(arguments, shape):
    rows, seen = [], set()
    for rank in range(arguments.tiles):
        tile, predicted, us = measure(arguments, shape, rank)
        if not tile:
            break  # not resident
        if tile in seen:
            break  # there are no more
        seen.add(tile)
        rows.append({"tile": tile, "predicted": predicted, "us": us})
        print(f"  {rows[-1]['us']:8.3f} µs  {predicted:8.3f} predicted  {tile}", flush=True)
    if not rows:
        return {"shape": shape, "resident": False}
    measured = [row["us"] for row in rows]
    rank_correlation = correlation(ranks([row["predicted"] for row in rows]), ranks(measured))
    loss = measured[0] / min(measured) - 1
    print(f"  rank correlation {rank_correlation:.2f}, loss of the pick {100 * loss:.0f} %")
    return {"shape": shape, "resident": True, "correlation": rank_correlation, "loss": loss,
            "tiles": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rnnc", default="build/default/tools/rnnc", help="the program rnnc")
    parser.add_argument("--tiles", type=int, default=10, help="of each shape")
    parser.add_argument("--steps", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each tile")
    parser.add_argument("--shape", action="append", help="CELL:H:B:DTYPE; may be repeated")
    parser.add_argument("--drawn", type=int, default=0, help="so many shapes of a seed instead")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--backward", action="store_true", help="of backward halves")
    parser.add_argument("--jobs", type=int, default=max(2, (os.cpu_count() or 2) - 2),
                        help="that compile at once")
    parser.add_argument("--budget", type=float, default=float("inf"),
                        help="seconds after which no more shapes are started")
    add_output_argument(parser, "tiles.json")
    arguments = parser.parse_args()
    shapes = drawn(arguments.drawn, arguments.seed) if arguments.drawn else SHAPES
    if arguments.shape:
        words = [text.split(":") for text in arguments.shape]
        shapes = [(cell, int(hidden), int(batch), dtype) for cell, hidden, batch, dtype in words]
    start = time.monotonic()
    compile_all(arguments, shapes)
    rows = []
    for shape in shapes:
        if time.monotonic() - start > arguments.budget:
            print(f"out of time: {len(shapes) - len(rows)} shapes are not measured")
            break
        print(":".join(str(word) for word in shape))
        rows.append(compare(arguments, shape))
        write_result(arguments.json, {"steps": arguments.steps, "backward": arguments.backward,
                                      "rows": rows})
    losses = [row["loss"] for row in rows if row["resident"]]
    if losses:
        mean = 100 * statistics.fmean(losses)
        print(f"the pick is {mean:.1f} % slower than the best measured on "
              f"the mean of {len(losses)}, {100 * max(losses):.0f} % at most")


if __name__ == "__main__":
    main()
