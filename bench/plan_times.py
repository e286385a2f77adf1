"""How long plans of long steps take, of both halves and on both kinds of devices, without a GPU.

    python3 bench/plan_times.py --rnnc PATH [--only "64 layers"] [--rounds 5] [--compiled]

Whole commands of `rnnc emit --as plan`: the processor's time from the start of the process on, the
least of all rounds, because planning is one thread's work. With --compiled what a plan's code takes,
too, for the CPU and for sm_90: all threads' time. JSON.
"""

import argparse
import resource
import subprocess

from common import add_output_argument, rnnc_command, write_result

PLANNING = ["bench/cells/planning.rnn", "--cell"]
CASES = {  # name: file and cell, dims
    "64 layers": (["examples/networks/stacked_lstm.rnn"], {"F": 64, "H": 64, "L": 64}),
    "delay of 4096": ([*PLANNING, "Far"], {"H": 64}),
    "2000 states": ([*PLANNING, "States"], {"H": 64}),
    "1000 operations": ([*PLANNING, "Chain"], {"H": 64, "N": 333}),
    "10000 operations": ([*PLANNING, "Chain"], {"H": 64, "N": 3333}),
}
PLANS = {
    "CPU": {"device": "cpu"},
    "CPU, backward": {"device": "cpu", "backward": True},
    "GPU": {"device": "cuda"},
    "GPU, backward": {"device": "cuda", "backward": True},
}
COMPILED = {"cpu": "asm", "cuda": "cubin"}


def processor_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {result.stderr.strip()}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(arguments, name):
    words, dims = CASES[name]
    row = {"name": name}
    for plan, options in PLANS.items():
        form = COMPILED[options["device"]] if arguments.compiled else "plan"
        options = {"as": form, "output": "/dev/null"} | options
        command = rnnc_command(arguments.rnnc, ["emit", *words], dims, options)
        row[plan] = min(processor_seconds(command) for _ in range(arguments.rounds))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rnnc", default="build/default/tools/rnnc", help="the program rnnc")
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compiled", action="store_true", help="with their machine code")
    add_output_argument(parser, "plan_times.json")
    arguments = parser.parse_args()
    print(f"{'ms':18}" + "".join(f"{plan:>15}" for plan in PLANS))
    rows = []
    for name in arguments.only:
        rows.append(measure(arguments, name))
        print(f"{name:18}" + "".join(f"{rows[-1][plan] * 1e3:15.0f}" for plan in PLANS), flush=True)
    forms = "asm, cubin" if arguments.compiled else "plan"
    write_result(arguments.json, {"how": f"rnnc emit --as {forms}", "rows": rows})


if __name__ == "__main__":
    main()
