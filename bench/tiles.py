"""How well the cost model ranks tiles of resident recurrences: each of the best few, measured.

    python3 bench/tiles.py --rnnc build/default/tools/rnnc

For each shape: the model's time per step beside the measured one (of calls launched plainly or
replayed as a CUDA graph, the better), the rank correlation of the two (Spearman), and how much
slower the model's pick is than the best that was measured.
"""

import argparse

from common import add_output_argument, run_bench, write_result

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


def measure(arguments, shape, rank):
    cell, hidden, batch, dtype = shape
    options = {"device": "cuda", "dtype": "f32" if dtype == "tf32" else dtype, "batch": batch}
    options |= {"steps": arguments.steps, "passes": "all", "tile-rank": rank}
    options |= {"seconds": arguments.seconds}
    if dtype == "tf32":
        options |= {"tf32": True}
    dims = {"I": hidden, "H": hidden}
    return run_bench(arguments.rnnc, [f"examples/cells/{cell}.rnn"], dims, options)


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
        result = measure(arguments, shape, rank)
        if not result["tiles"]:
            break  # not resident
        tile = "; ".join(result["tiles"])
        if tile in seen:
            break  # there are no more
        seen.add(tile)
        predicted = result["predicted_microseconds_per_step"]
        us = min(result["microseconds_per_step"], result["replayed_microseconds_per_step"])
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
    add_output_argument(parser, "tiles.json")
    arguments = parser.parse_args()
    shapes = SHAPES
    if arguments.shape:
        words = [text.split(":") for text in arguments.shape]
        shapes = [(cell, int(hidden), int(batch), dtype) for cell, hidden, batch, dtype in words]
    rows = []
    for shape in shapes:
        print(":".join(str(word) for word in shape))
        rows.append(compare(arguments, shape))
    write_result(arguments.json, {"steps": arguments.steps, "rows": rows})


if __name__ == "__main__":
    main()
