"""Time per step of every shipped cell and network on the CPU, with several programs or options.

    python3 bench/cpu_cells.py old/rnnc new/rnnc             # before and after
    python3 bench/cpu_cells.py rnnc "rnnc --vector-bits 512,256" "rnnc --cpu-level avx2"

Each argument is a program with options for `rnnc bench`; they take turns, `--rounds` times for each
cell, and the least counts. Behind the times: what the others take of the first's. f32; run it from
the repository's root.
"""

import argparse
import math
import re
import shlex
import statistics
from pathlib import Path

from common import add_output_argument, cpu_name, run_bench, write_result


def definitions():
    """(file, name, dims without a default) of each cell and network."""
    for folder in ("cells", "networks"):
        for path in sorted(Path("examples", folder).glob("*.rnn")):
            found = re.findall(r"^(?:cell|network) (\w+)\[([^]]*)\]", path.read_text(), re.MULTILINE)
            name, dims = found[-1]
            free = [dim.strip() for dim in dims.split(",") if "=" not in dim]
            yield path, name, free


def microseconds(program, path, name, dims, arguments):
    rnnc, *options = shlex.split(program)
    words = [path, "--cell", name, "--seconds", arguments.seconds, *options]
    shape = {"batch": arguments.batch, "steps": arguments.steps, "threads": arguments.threads}
    return run_bench(rnnc, words, dims, shape)["microseconds_per_step"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="+", help="a program, and options for its `bench`")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=256, help="every dim without a default")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each turn")
    add_output_argument(parser, "cpu_cells.json")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    header = {"device": cpu_name()} | {
        name: getattr(arguments, name) for name in ("batch", "hidden", "steps", "threads")
    }
    print(", ".join(f"{name} {value}" for name, value in header.items()))
    rows = []
    for path, name, free in definitions():
        dims = {dim: arguments.hidden for dim in free}
        times = {program: math.inf for program in arguments.program}
        for _ in range(arguments.rounds):
            for program in times:
                time = microseconds(program, path, name, dims, arguments)
                times[program] = min(times[program], time)
        rows.append({"cell": name, "us_per_step": times})
        first, *others = times.values()
        shares = "".join(f"{other / first:7.2f}" for other in others)
        columns = "".join(f"{time:10.2f}" for time in times.values())
        print(f"{name:28}{columns}{shares}", flush=True)
    first, *others = arguments.program
    for other in others:
        shares = [row["us_per_step"][other] / row["us_per_step"][first] for row in rows]
        mean = math.exp(statistics.fmean(map(math.log, shares)))
        print(f"{other}: geometric mean {mean:.3f} of the first's time, worst {max(shares):.2f}")
    write_result(arguments.json, header | {"rows": rows})


if __name__ == "__main__":
    main()
