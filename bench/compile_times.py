"""How long resident recurrences take to compile, cold and from the kernel cache.

    python3 bench/compile_times.py --rnnc PATH [--only table] [--shape 16x1024] [--rounds 3]

Shapes as in recurrences.py. On a GPU: `rnnc bench --compile`, in a process whose libraries are
loaded. With --arch, which needs no GPU: whole commands of `rnnc compile`, from the start of the
process on. One after the other, in rounds; medians count. JSON.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time

from common import add_output_argument, rnnc_command, write_result
from recurrence_shapes import COLD_SECONDS, DTYPES, parts
from recurrences import Failed, ask_json, choose


def measure_in_process(arguments, case):
    """Seconds: cold, and from the cache."""
    words, dims = case.source
    command = rnnc_command(arguments.rnnc, ["bench", *words], dims,
                           case.options | {"compile": True, "json": "-"})
    result = ask_json(command, arguments.timeout)
    return result["cold_seconds"], result["cached_seconds"]


def measure_command(arguments, case):
    words, dims = case.source
    options = {name: value for name, value in case.options.items() if name != "device"}
    command = rnnc_command(arguments.rnnc, ["compile", *words], dims,
                           options | {"arch": arguments.arch})

    def seconds(cache):
        start = time.monotonic()
        result = subprocess.run(command, env=os.environ | {"RNNC_CACHE_DIR": cache},
                                capture_output=True, text=True, timeout=arguments.timeout)
        if result.returncode != 0:
            raise Failed(" ".join(result.stderr.split())[:300])
        return time.monotonic() - start

    with tempfile.TemporaryDirectory() as cache:
        return seconds(cache), statistics.median(seconds(cache) for _ in range(3))


def measure(arguments, rows):
    """Adds `cold_seconds` and `cached_seconds` to each row, one for each round."""
    one = measure_command if arguments.arch else measure_in_process
    for _ in range(arguments.rounds):
        for row in rows:
            try:
                cold, cached = one(arguments, row["case"])
            except (Failed, subprocess.TimeoutExpired) as failure:
                row["failure"] = str(failure)
                print(f"{row['name']:34} failed: {failure}", flush=True)
                continue
            row.setdefault("cold_seconds", []).append(cold)
            row.setdefault("cached_seconds", []).append(cached)
            print(f"{row['name']:34}{cold * 1e3:8.0f} ms{cached * 1e3:8.1f} ms", flush=True)


def sum_up(rows):
    timed = [row for row in rows if "cold_seconds" in row]
    if not timed:
        raise SystemExit("nothing was measured")
    cold = {row["name"]: statistics.median(row["cold_seconds"]) for row in timed}
    cached = max(statistics.median(row["cached_seconds"]) for row in timed)
    above = sorted((name for name in cold if cold[name] >= COLD_SECONDS), key=cold.get)
    print(f"cold: median {statistics.median(cold.values()):.2f} s, "
          f"{len(cold) - len(above)} of {len(rows)} below {COLD_SECONDS} s; "
          f"from the kernel cache at most {cached * 1e3:.1f} ms")
    for name in reversed(above):
        print(f"  {cold[name]:.2f} s: {name}")
    return {"median_seconds": statistics.median(cold.values()), "most_seconds": max(cold.values()),
            "below": len(cold) - len(above), "of": len(rows), "most_cached_seconds": cached}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    names = [part for part in parts() if part != "sweep"]
    add("--rnnc", default="build/default/tools/rnnc", help="the program rnnc")
    add("--only", nargs="+", choices=names, default=names, metavar="PART",
        help=f"of {', '.join(names)}")
    add("--dtype", nargs="+", choices=DTYPES, default=DTYPES)
    add("--shape", nargs="+", metavar="TEXT", help="those whose names contain one, as 16x1024")
    add("--arch", help="compile for this architecture, by whole commands; without: for the GPU")
    add("--rounds", type=int, default=1)
    add("--timeout", type=float, default=60, help="seconds that a command may take")
    add_output_argument(parser, "compile_times.json")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    rows = choose(arguments)
    if not rows:
        raise SystemExit("no shape is left")
    measure(arguments, rows)
    how = f"rnnc compile --arch {arguments.arch}" if arguments.arch else "rnnc bench --compile"
    columns = ("name", "parts", "cold_seconds", "cached_seconds", "failure")
    kept = [{name: row[name] for name in columns if name in row} for row in rows]
    write_result(arguments.json, {"how": how} | sum_up(rows) | {"rows": kept})


if __name__ == "__main__":
    main()
