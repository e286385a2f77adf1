"""Bytes per second of elementwise recurrences from pre-activations, beside a copy on the GPU.

    python3 bench/elementwise_bandwidth.py --rnnc build/default/tools/rnnc

Counted are the sequences alone, each read or written once; of the copy, reads and writes. The two
take turns; what counts is the median of their rounds. Run it from the repository's root. Needs
torch and a GPU.
"""

import argparse
import statistics

import torch

from common import add_output_argument, run_bench, write_result

CELLS = {"IndRNNRecurrence": 2, "SRURecurrence": 5}  # sequences read and written
SIZES = {"f32": 4, "bf16": 2, "f16": 2}


def time_copy(size):
    """Bytes per second, read and written, of copies of `size` bytes."""
    source = torch.zeros(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    rates = []
    for i in range(25):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        if i >= 5:
            rates.append(2 * size / (begin.elapsed_time(end) / 1e3))
    return statistics.median(rates)


def time_cell(arguments, cell):
    result = run_bench(
        arguments.rnnc,
        ["bench/cells/from_preactivations.rnn", "--cell", cell],
        {"H": arguments.hidden},
        {"device": "cuda", "dtype": arguments.dtype, "runs": 50}
        | {"batch": arguments.batch, "steps": arguments.steps},
    )
    step = arguments.batch * arguments.hidden * SIZES[arguments.dtype]
    return CELLS[cell] * step / (result["microseconds_per_step"] / 1e6)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rnnc", default="build/default/tools/rnnc", help="the program rnnc")
    parser.add_argument("--dtype", choices=SIZES, default="f32")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    add_output_argument(parser, "elementwise_bandwidth.json")
    arguments = parser.parse_args()

    header = {
        "machine": torch.cuda.get_device_name(),
        "dtype": arguments.dtype,
        "batch": arguments.batch,
        "hidden": arguments.hidden,
        "steps": arguments.steps,
    }
    print(", ".join(f"{name} {value}" for name, value in header.items()))
    rows = []
    sequence = arguments.batch * arguments.hidden * arguments.steps * SIZES[arguments.dtype]
    for cell, sequences in CELLS.items():
        copies, cells = [], []
        for _ in range(arguments.rounds):
            copies.append(time_copy(sequences * sequence // 2))  # as many bytes as the cell
            cells.append(time_cell(arguments, cell))
        copy, ours = statistics.median(copies), statistics.median(cells)
        rows.append({"cell": cell, "bytes_per_second": ours, "copy": copy, "share": ours / copy})
        print(f"{cell}: {ours / 1e12:.2f} TB/s of {copy / 1e12:.2f} TB/s: {ours / copy:.0%}")
    write_result(arguments.json, header | {"rows": rows})


if __name__ == "__main__":
    main()
