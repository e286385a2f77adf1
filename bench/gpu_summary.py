"""The results of gpu_measures.sh in one file, and what they come to as a table.

python3 bench/gpu_summary.py FOLDER FILE
"""

import json
import sys
from pathlib import Path

from common import write_result


def read(folder, name):
    path = folder / name
    if not path.exists() or not path.stat().st_size:
        return None
    lines = path.read_text()
    if path.suffix != ".jsonl":
        return json.loads(lines)
    return [json.loads(line) for line in lines.splitlines()]


def print_ladder(dtype, ladder, cudnn):
    for network in ladder["networks"]:
        times = [rung["microseconds_per_step"] for rung in network["rungs"]]
        best = min(times)
        text = f"{dtype:5}{network['title']:34} naive {times[0]:8.2f}  best {best:7.2f} µs per step"
        text += f"  ({times[0] / best:.1f}x)  floor {network['floor_microseconds_per_step']:6.2f}"
        for peer in cudnn or []:
            if peer["hidden"] == network["dims"]["H"]:
                theirs = peer["microseconds_per_step"]
                text += f"  cuDNN {theirs:7.2f} ({theirs / best:.2f}x; {peer['best']})"
        print(text)


def main():
    folder, file = Path(sys.argv[1]), Path(sys.argv[2])
    result = {}
    for dtype in ("f32", "tf32", "bf16"):
        ladder = read(folder, f"ladder_{dtype}.json")
        cudnn = read(folder, f"cudnn_{dtype}.jsonl")
        if ladder:
            print_ladder(dtype, ladder, cudnn)
            result |= {f"ladder_{dtype}": ladder, f"cudnn_{dtype}": cudnn}
    cells = read(folder, "cells_peers.json")
    for row in cells["rows"] if cells else []:
        print(f"{row['cell']}: {row['ratio']:.2f}x the faster peer")
    bandwidth = read(folder, "elementwise_bandwidth.json")
    for row in bandwidth["rows"] if bandwidth else []:
        print(f"{row['cell']}: {row['share']:.0%} of a copy's bandwidth")
    write_result(file, result | {"cells_peers": cells, "elementwise_bandwidth": bandwidth})


if __name__ == "__main__":
    main()
