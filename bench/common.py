"""What the benchmarks in Python share."""

import datetime
import json
import statistics
import subprocess
import time
from pathlib import Path


def rnnc_command(rnnc, words, dims, options):
    """`rnnc WORDS --dim … --OPTION VALUE …` as a list; True stands for a mere flag."""
    command = [rnnc, *words]
    for name, value in dims.items():
        command += ["--dim", f"{name}={value}"]
    for name, value in options.items():
        command += [f"--{name}"] if value is True else [f"--{name}", value]
    return [str(word) for word in command]


def run_json(rnnc, words, dims, options):
    """The JSON that a command of rnnc prints."""
    command = rnnc_command(rnnc, words, dims, options)
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {result.stderr.strip()}")
    return json.loads(result.stdout)


def run_bench(rnnc, words, dims, options):
    """The JSON of `rnnc bench WORDS --dim … --OPTION VALUE …`."""
    return run_json(rnnc, ["bench", *words], dims, options | {"json": "-"})


def median_seconds(call, seconds, least=5):
    """Of calls, one after the other for so long, at least so many, behind a first one."""
    call()
    times, end = [], time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return "CPU"


RESULTS = Path(__file__).resolve().parent / "results"


def add_output_argument(parser, name):
    help = f"where the results go; default: bench/results/{name}"
    parser.add_argument("--json", type=Path, default=RESULTS / name, metavar="FILE", help=help)


def write_result(path, result):
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"date": date} | result, indent=2) + "\n")
