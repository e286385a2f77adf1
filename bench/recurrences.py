"""Time per step of resident recurrences on a GPU beside cuDNN's best algorithm, in one run.

    python3 bench/recurrences.py --rnnc PATH --cudnn PATH [--only table list] [--torch] [--peers]
    python3 bench/recurrences.py --backward …    # training: forward, and every gradient

Parts: the table of shapes with figures to reach, cells that nobody wrote by hand, a fixed varied
list of 60 shapes, and sweeps of H, B and T, which plot_recurrences.py draws. All kernels are
compiled first, side by side; then cuDNN and rnnc take turns, a few shapes each. A shape that fails
is reported and stops no other, and what is measured is written at once, so that a run may be cut
short. `recorded` are figures of other runs. Times are microseconds per step, forward, input
products included except where heads are named. Both are measured launched plainly and replayed as
a CUDA graph of one call, and the better of each counts: `us` is that of `plain_us` and
`replayed_us`, `cudnn_us` that of all algorithms (`cudnn.variants`). JSON, and the same as TSV
beside it.

With --backward a line below each shape has its parts, which `rnnc profile` times launch by launch:
the forward half, the recurrence of the backward half, products, and what is left; cuDNN's are those
of its best algorithm launched plainly: forward, gradients of data, gradients of weights.

With --tune rnnc measures the best few ways of each shape and takes the fastest (`rnnc bench
--tune`), as cuDNN's best algorithm is of those it has. With --given-states calls of both come with
initial states, and have gradients by them.
"""

import argparse
import contextlib
import importlib.util
import json
import math
import os
import shutil
import statistics
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import RESULTS, rnnc_command, write_result
from recurrence_peers import time_peers
from recurrence_shapes import (BACKWARD, COMPILE_RATIO, COMPILED_STEP, DTYPES, FORWARD, REFERENCE,
                               WORST_RATIO, parts)

TURN = 20  # shapes that cuDNN measures before rnnc measures the same
COLUMNS = ("name", "parts", "us", "plain_us", "replayed_us", "floor_us", "cudnn_us", "ratio",
           "torch_us", "goal_us", "recorded_us", "recorded_by", "forward_us", "recurrence_us",
           "products_us", "rest_us", "strategy", "failure")
PRODUCTS = ("product", "total")  # kinds of launches
# What --tune compares, but for launches of each step.
TUNED = ([{"tile-rank": rank} for rank in (1, 2, 3)] +
         [{"strategy": name} for name in ("block", "cluster", "grid", "hybrid", "split-k", "stacked")])


class Failed(Exception):
    """Of one shape, in words."""


class TimedOut(Failed):
    pass


def ask_json(command, seconds):
    """What a program prints as JSON."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise TimedOut(f"stopped after {seconds:g} s") from None
    if result.returncode != 0:
        words = " ".join(result.stderr.split()) or f"exit code {result.returncode}"
        raise Failed(words[:300])
    try:
        return json.loads(result.stdout)
    except ValueError:
        raise Failed("printed no JSON") from None


def ask_rnnc(arguments, command, case, options):
    words, dims = case.source
    options = case.options | {"passes": arguments.passes} | options
    if arguments.backward:
        options |= {"backward": True}
    return ask_json(rnnc_command(arguments.rnnc, [command, *words], dims, options),
                    arguments.timeout)


def of_calls(arguments):
    """Options of what measures calls."""
    given = {"tune": arguments.tune, "given-states": arguments.given_states}
    return {name: True for name, flag in given.items() if flag}


def bench(arguments, case, options):
    return ask_rnnc(arguments, "bench", case, options | {"json": "-"})


def explain(arguments, case):
    """How the case will run, in words, and the phases of its recurrences, of backward halves those
    of the backward."""
    explanation = ask_rnnc(arguments, "explain", case, {"json": True})
    halves = [explanation] if not arguments.backward else [explanation["forward"],
                                                           explanation["backward"]]
    words, phases = [], 0
    for half in halves:
        stages = [stage for stage in half["stages"] if stage["recurrence"] != "none"]
        resident = [launch["strategy"] for stage in stages for launch in stage["launches"]
                    if launch["kind"] == "recurrence"]
        words.append("; ".join(dict.fromkeys(resident)) or "not resident")
        phases = sum(stage["phases"] for stage in stages)
    return {"strategy": ", backward ".join(words), "phases": phases}


def profile(arguments, case):
    """Microseconds per step of the parts of training: launches are timed apart, so that what runs
    beside another launch counts twice."""
    halves = ask_rnnc(arguments, "profile", case,
                      {"json": "-", "seconds": arguments.seconds} | of_calls(arguments))
    result = {"forward_us": halves["forward"]["measured"]["seconds"] * 1e6 / case.steps,
              "recurrence_us": 0, "products_us": 0, "rest_us": 0}
    for stage in halves["backward"]["stages"]:
        for launch in stage["launches"]:
            recurrence = launch["kind"] in ("recurrence", "loop", "scan")
            part = ("recurrence_us" if recurrence else
                    "products_us" if launch["kind"] in PRODUCTS else "rest_us")
            result[part] += (launch["measured_seconds"] or 0) * 1e6 / case.steps
    return result


def compile_all(arguments, rows):
    """Fills the kernel cache, and learns how each case will run."""

    def compile_one(row):
        try:
            row |= explain(arguments, row["case"])
            bench(arguments, row["case"], {"runs": 1})
            for way in TUNED if arguments.tune else []:
                with contextlib.suppress(Failed):
                    bench(arguments, row["case"], {"runs": 1} | way)
        except TimedOut as failure:
            row["failure"] = str(failure)  # one that hangs is not tried again
            return row["failure"]
        except Failed as failure:
            return str(failure)
        return None

    start = time.monotonic()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        failures = list(filter(None, pool.map(compile_one, rows)))
    print(f"compiled {len(rows) - len(failures)} of {len(rows)} shapes "
          f"in {time.monotonic() - start:.0f} s", flush=True)
    if len(failures) == len(rows):
        raise SystemExit(failures[0])


def time_rnnc(arguments, row):
    if "failure" in row:
        return
    try:
        result = bench(arguments, row["case"], {"seconds": arguments.seconds} | of_calls(arguments))
        plain = result["microseconds_per_step"]
        replayed = result.get("replayed_microseconds_per_step", plain)
        row |= {"us": min(plain, replayed), "plain_us": plain, "replayed_us": replayed,
                "floor_us": result["floor_microseconds_per_step"], "rnnc": result}
        if arguments.backward:
            row |= profile(arguments, row["case"])
    except Failed as failure:
        row["failure"] = str(failure)


def run_cudnn(arguments, words):
    """What it prints for the shapes up to one that stops it, and why that one did."""
    options = ["--backward"] if arguments.backward else []
    options += ["--given-states"] if arguments.given_states else []
    command = [arguments.cudnn, *options, "--seconds", str(arguments.seconds), *words]
    limit = arguments.timeout * len(words)
    try:
        result = subprocess.run(command, capture_output=True, timeout=limit)
        output, failure = result.stdout, result.stderr.decode() or f"exit code {result.returncode}"
    except subprocess.TimeoutExpired as expired:
        output, failure = expired.stdout or b"", "ran too long"
    lines = output.decode().split("\n")[:-1]  # whole ones
    results = [json.loads(line) for line in lines if line.startswith("{")]
    return results, " ".join(failure.split())[:300]


def time_cudnn(arguments, rows):
    pending = {row["case"].cudnn: row for row in rows if row["case"].cudnn}
    while pending:
        results, failure = run_cudnn(arguments, list(pending))
        for word, result in zip(list(pending), results):
            pending.pop(word)["cudnn"] = result
        if pending:
            pending.pop(next(iter(pending)))["cudnn"] = {"failure": failure}
    for row in rows:
        us = row.get("cudnn", {}).get("microseconds_per_step")
        if us:
            row["cudnn_us"] = us
        elif "cudnn" in row:
            row["cudnn"].setdefault("failure", "no algorithm takes it")


def time_torch(row):
    """`torch.nn` as it comes."""
    import torch

    from torch_compare import time_torch as time_module

    case = row["case"]
    if not case.cudnn:
        return
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = case.dtype == "tf32"
    dtype = "f32" if case.dtype == "tf32" else case.dtype
    try:
        row["torch_us"] = time_module("cuda", dtype, case.steps, case.batch, case.hidden, 10,
                                      case.cell.upper(), case.layers)
    except RuntimeError as error:
        row["torch_failure"] = " ".join(str(error).split())[:300]


def choose(arguments, figures=FORWARD):
    """The rows to measure, each case once."""
    goals = {goal.case: goal for goal in figures.table}
    rows = {}
    for part, cases in parts(figures).items():
        for case in cases if part in arguments.only else []:
            wanted = not arguments.shape or any(text in str(case) for text in arguments.shape)
            if wanted and case.dtype in arguments.dtype:
                row = rows.setdefault(case, {"case": case, "name": str(case), "parts": []})
                row["parts"].append(part)
    for case, row in rows.items():
        if case in goals:
            goal = goals[case]
            row |= {"goal_us": goal.reach, "recorded_us": goal.recorded, "recorded_by": goal.by}
    return list(rows.values())


def text_of(value, width, digits=2):
    return f"{'-' if value is None else f'{value:.{digits}f}':>{width}}"


def print_heading():
    print(f"{'layers x B x H':34}{'rnnc':>9}{'plain':>9}{'replayed':>9}{'floor':>9}{'cuDNN':>9}"
          f"{'ratio':>7}{'torch':>9}{'goal':>7}  recorded, strategy", flush=True)


def print_parts(row):
    """Of training, ours and cuDNN's."""
    lines = []
    if "forward_us" in row:
        names = ("forward", "recurrence", "products", "rest")
        lines.append(", ".join(f"{name} {row[f'{name}_us']:.2f}" for name in names))
    best = row.get("cudnn", {}).get("best", "").removesuffix(", graph")
    for variant in row.get("cudnn", {}).get("variants", []):
        if variant["name"] == best and "data_gradients" in variant:
            names = {"forward": "forward", "data_gradients": "data", "weight_gradients": "weights"}
            figures = ", ".join(f"{word} {variant[key]:.2f}" for key, word in names.items())
            lines.append(f"cuDNN, {best}, plain: {figures}")
    if lines:
        print("    " + "; ".join(lines))


def print_row(row):
    text = f"{row['name']:34}"
    for column in ("us", "plain_us", "replayed_us", "floor_us", "cudnn_us"):
        text += text_of(row.get(column), 9, 3)
    text += text_of(row.get("ratio"), 7)
    text += text_of(row.get("torch_us"), 9, 3) + text_of(row.get("goal_us"), 7)
    if "recorded_us" in row:
        text += f"  {row['recorded_by']} {row['recorded_us']:g}"
    print(f"{text}  {row.get('strategy', '')}")
    print_parts(row)
    for who, us in row.get("peers_us", {}).items():
        ratio = f", {us / row['us']:.1f}x" if "us" in row else ""
        print(f"    {who} {us:.2f}{ratio}")
    for who, failure in (("rnnc", row.get("failure")),
                         ("cuDNN", row.get("cudnn", {}).get("failure")),
                         ("torch", row.get("torch_failure"))):
        if failure:
            print(f"    {who} failed: {failure}")


def sum_up_table(rows):
    goals = [row for row in rows if "table" in row["parts"]]
    missed = [row for row in goals if not row.get("us", math.inf) <= row["goal_us"]]
    print(f"table: {len(goals) - len(missed)} of {len(goals)} reach their figure")
    for row in missed:
        print(f"  missed: {row['name']}: {text_of(row.get('us'), 0, 3)} for {row['goal_us']:g}")
    return {"reached": len(goals) - len(missed), "of": len(goals)}


def sum_up_cells(rows, figures):
    """Each cell's time per phase beside the LSTM's, and its time beside the compiled step's; of
    training that of the recurrence of the backward half."""
    key = "recurrence_us" if figures is BACKWARD else "us"
    timed = {row["case"]: row for row in rows if row.get(key) and row.get("phases")}
    reference = timed.get(REFERENCE)
    cells = []
    for case in figures.cells:
        if case not in timed:
            continue
        us, phases = timed[case][key], timed[case]["phases"]
        cell = {"cell": case.cell, "us": us, "phases": phases, "us_per_phase": us / phases}
        text = f"{case.cell}: {us:.3f}, phases {phases}, {us / phases:.3f} each"
        if reference:
            lstm = reference[key] / reference["phases"]
            cell["phase_ratio"] = us / phases / lstm
            text += f", {cell['phase_ratio']:.2f} of the LSTM's (at most {figures.phase_ratio})"
        if figures is FORWARD and case.cell in COMPILED_STEP:
            cell["compile_ratio"] = COMPILED_STEP[case.cell] / us
            text += f"; torch.compile as recorded {COMPILED_STEP[case.cell]}"
            text += f" ({cell['compile_ratio']:.1f}x, at least {COMPILE_RATIO})"
        print(text)
        cells.append(cell)
    return cells


def sum_up_list(rows, dtype, to_reach):
    rows = [row for row in rows if "list" in row["parts"] and row["case"].dtype == dtype]
    compared = sorted((row for row in rows if "ratio" in row), key=lambda row: row["ratio"])
    if not compared:
        return None
    mean = math.exp(statistics.fmean(math.log(row["ratio"]) for row in compared))
    worst = compared[0]
    print(f"list, {dtype}: cuDNN / rnnc {mean:.2f}, geometric mean of {len(compared)} of "
          f"{len(rows)} (to reach {to_reach}); "
          f"worst {worst['ratio']:.2f}, {worst['name']}")
    below = [row["name"] for row in compared if row["ratio"] < WORST_RATIO]
    failed = [row["name"] for row in rows if "ratio" not in row]
    for what, names in ((f"below {WORST_RATIO}", below), ("not compared", failed)):
        if names:
            print(f"  {what}: {', '.join(names)}")
    return {"geometric_mean": mean, "to_reach": to_reach, "compared": len(compared),
            "of": len(rows), "worst": worst["ratio"], "worst_shape": worst["name"], "below": below,
            "not_compared": failed}


def sum_up(rows, figures):
    result = {}
    if any("table" in row["parts"] for row in rows):
        result["table"] = sum_up_table(rows)
    if any("cells" in row["parts"] for row in rows):
        result["cells"] = sum_up_cells(rows, figures)
    lists = {dtype: sum_up_list(rows, dtype, figures.list_ratios[dtype]) for dtype in DTYPES}
    return result | {"list": {dtype: summary for dtype, summary in lists.items() if summary}}


def cell_of(row, column):
    value = row.get(column, "")
    if isinstance(value, list):
        return " ".join(value)
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def write(arguments, rows, result):
    described = [row["case"]._asdict() | {name: row[name] for name in row if name != "case"}
                 for row in rows]
    versions = {}
    for row in rows:
        for source in (row.get("cudnn", {}), row.get("rnnc", {})):
            versions |= {"machine": source["machine"]} if "machine" in source else {}
        cudnn = row.get("cudnn", {}).get("cudnn")
        versions |= {"cudnn": cudnn} if cudnn else {}
    header = versions | {"passes": arguments.passes, "seconds": arguments.seconds,
                         "backward": arguments.backward, "tune": arguments.tune,
                         "given_states": arguments.given_states}
    write_result(arguments.json, header | result | {"rows": described})
    lines = ["\t".join(COLUMNS)]
    lines += ["\t".join(cell_of(row, column) for column in COLUMNS) for row in rows]
    arguments.json.with_suffix(".tsv").write_text("\n".join(lines) + "\n")


def measure(arguments, rows):
    """All rows, in turns; returns those that there was time for."""
    start = time.monotonic()
    compile_all(arguments, rows)
    print_heading()
    done = []
    for first in range(0, len(rows), TURN):
        if time.monotonic() - start > arguments.budget:
            print(f"out of time: {len(rows) - len(done)} shapes are not measured")
            break
        turn = rows[first:first + TURN]
        if arguments.cudnn:
            time_cudnn(arguments, turn)
        middle = time.monotonic()
        for row in turn:
            time_rnnc(arguments, row)
            if arguments.torch:
                time_torch(row)
            if arguments.peers:
                time_peers(row, arguments.backward)
            if "us" in row and "cudnn_us" in row:
                row["ratio"] = row["cudnn_us"] / row["us"]
            print_row(row)
        done += turn
        write(arguments, done, {})
        print(f"-- {len(done)} of {len(rows)} shapes after {time.monotonic() - start:.0f} s, "
              f"rnnc's turn {time.monotonic() - middle:.0f} s", flush=True)
    return done


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rnnc", default="build/default/tools/rnnc", help="the program rnnc")
    add("--cudnn", default="build/default/bench/cudnn_rnn",
        help="the program cudnn_rnn; '': without")
    add("--backward", action="store_true",
        help="training: forward, and backward with every gradient")
    add("--tune", action="store_true", help="the fastest of rnnc's best few ways, measured")
    add("--given-states", action="store_true", help="calls come with initial states; not of peers")
    add("--torch", action="store_true", help="torch.nn too, forward only")
    add("--peers", action="store_true", help="FlashRNN and JAX too, where they are installed")
    add("--only", nargs="+", choices=list(parts()), default=list(parts()), metavar="PART",
        help="of table, cells, list and sweep")
    add("--dtype", nargs="+", choices=DTYPES, default=DTYPES)
    add("--shape", nargs="+", metavar="TEXT", help="those whose names contain one, as 16x1024")
    add("--passes", default="all", help="rnnc's")
    add("--seconds", type=float, default=0.1, help="for each measurement")
    add("--timeout", type=float, default=60, help="seconds that a shape may take in all")
    add("--budget", type=float, default=math.inf, help="seconds after which no more is started")
    add("--jobs", type=int, default=max(2, (os.cpu_count() or 2) - 2), help="that compile at once")
    add("--json", type=Path, metavar="FILE",
        help="where the results go; default: bench/results/recurrences.json, of --backward "
        "recurrences_backward.json")
    arguments = parser.parse_args()
    name = "recurrences_backward.json" if arguments.backward else "recurrences.json"
    arguments.json = arguments.json or RESULTS / name
    for program in filter(None, (arguments.rnnc, arguments.cudnn)):
        if not shutil.which(program):
            parser.error(f"{program} is no program")
    if arguments.torch and arguments.backward:
        parser.error("--torch is forward only: bench/training.py has torch.nn's training")
    if arguments.torch and not importlib.util.find_spec("torch"):
        parser.error("--torch needs PyTorch")
    return arguments


def main():
    arguments = parse_arguments()
    figures = BACKWARD if arguments.backward else FORWARD
    rows = choose(arguments, figures)
    if not rows:
        raise SystemExit("no shape is left")
    rows = measure(arguments, rows)
    write(arguments, rows, sum_up(rows, figures))


if __name__ == "__main__":
    main()
