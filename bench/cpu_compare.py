"""Time per step of LSTM and GRU on the CPU: rnnc beside PyTorch and ONNX Runtime, in one run.

    python3 bench/cpu_compare.py --rnnc build/default/tools/rnnc
    python3 bench/cpu_compare.py --rnnc … --hidden 256 --batch 16 --rounds 3        # fewer shapes
    python3 bench/cpu_compare.py --rnnc … --layers 4 --update              # the table, part by part

The three take turns; what counts is the least of their rounds' medians, since whatever else runs on
the machine only adds to a time. A round goes through all shapes, so that a bad minute of the machine
(two processors of a virtual one that are for a while two halves of one core, or in two sockets) is
one round of some shapes. The load average behind a row says how much else ran in the last round:
those compared make `--threads` of it. GRU is torch's, with the reset gate after the recurrent
product. f32, forward, the input as wide as the hidden state.

Behind the ratio, in percent: `floor`, the least time that the products can take of what rnnc takes,
at the rates that bench/cpu_peak.cpp measures first (the input's product of all steps, and in each
step multiply-adds or, of 1 to 4 rows, the weights from the second level caches, whichever takes
longer; weights that do not fit there take longer still); and `mm`, what torch.mm takes for the same
products of what the faster peer takes.

Needs torch, onnx and onnxruntime, and a C++ compiler; run it from the repository's root.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from common import add_output_argument, cpu_name, run_bench, write_result

GATES = {"LSTM": 4, "GRU": 3}


def torch_network(cell, layers, hidden, steps, batch):
    torch.manual_seed(1)
    network = getattr(nn, cell)(hidden, hidden, layers).eval()
    x = torch.rand(steps, batch, hidden) * 2 - 1
    return lambda: network(x)


def onnx_network(cell, layers, hidden, steps, batch, threads):
    """A session for `layers` ONNX operators, one behind the other."""
    random = np.random.default_rng(1)
    bound = 1 / math.sqrt(hidden)
    nodes, weights = [], [numpy_helper.from_array(np.array([1], np.int64), "direction")]
    attributes = {"hidden_size": hidden} | ({"linear_before_reset": 1} if cell == "GRU" else {})
    rows = GATES[cell] * hidden
    for layer in range(layers):
        shapes = {"W": (1, rows, hidden), "R": (1, rows, hidden), "B": (1, 2 * rows)}
        for name, shape in shapes.items():
            values = random.uniform(-bound, bound, shape).astype(np.float32)
            weights.append(numpy_helper.from_array(values, f"{name}{layer}"))
        source = [f"x{layer}"] + [f"{name}{layer}" for name in shapes]
        nodes.append(helper.make_node(cell, source, [f"y{layer}"], **attributes))
        nodes.append(helper.make_node("Squeeze", [f"y{layer}", "direction"], [f"x{layer + 1}"]))
    arrays = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [steps, batch, hidden])
        for name in ("x0", f"x{layers}")
    ]
    graph = helper.make_graph(nodes, cell, arrays[:1], arrays[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    x = random.uniform(-1, 1, (steps, batch, hidden)).astype(np.float32)
    return lambda: session.run(None, {"x0": x})


def time_calls(call, seconds):
    """Median seconds of a call, of as many as fit into `seconds`, after a warm-up."""
    call()
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def measure_peak(threads):
    """What bench/cpu_peak.cpp prints."""
    source = Path(__file__).with_name("cpu_peak.cpp")
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/cpu_peak"
        options = ["-std=c++20", "-O2", "-march=native", "-pthread"]
        subprocess.run(["c++", *options, source, "-o", program], check=True)
        result = subprocess.run([program, str(threads)], capture_output=True, check=True)
    return json.loads(result.stdout)


def floor_microseconds(peak, cell, layers, hidden, batch):
    """Of a step: the least time for its products."""
    weights = layers * GATES[cell] * hidden * hidden  # of the input, and as many of the recurrence
    multiply_adds = 2 * weights * batch / peak["flops"]
    return 1e6 * (multiply_adds + max(multiply_adds, 4 * weights / peak["l2_bytes_per_second"]))


def torch_products(cell, layers, hidden, steps, batch):
    """A call that computes the products of a network, and nothing else."""
    columns = GATES[cell] * hidden
    sequence, step = torch.rand(steps * batch, hidden), torch.rand(batch, hidden)
    weights = [torch.rand(columns, hidden).t() for _ in range(2 * layers)]
    of_sequence, of_step = torch.empty(steps * batch, columns), torch.empty(batch, columns)

    def multiply():
        for layer in range(layers):
            torch.mm(sequence, weights[2 * layer], out=of_sequence)
            for _ in range(steps):
                torch.mm(step, weights[2 * layer + 1], out=of_step)

    return multiply


def ours(arguments, cell, layers, hidden, batch):
    """Microseconds per step."""
    network = f"examples/networks/stacked_{cell.lower()}.rnn"
    result = run_bench(
        arguments.rnnc,
        [network, "--cell", f"Stacked{cell}", "--seconds", arguments.seconds],
        {"F": hidden, "H": hidden, "L": layers},
        {"batch": batch, "steps": arguments.steps, "threads": arguments.threads},
    )
    return result["microseconds_per_step"]


def measure_round(arguments, cell, layers, hidden, batch):
    """Microseconds per step of each."""
    shape = (cell, layers, hidden, arguments.steps, batch)
    times = {"rnnc": ours(arguments, cell, layers, hidden, batch)}
    peers = {
        "torch": torch_network(*shape),
        "onnx": onnx_network(*shape, arguments.threads),
        "torch_mm": torch_products(*shape),
    }
    with torch.inference_mode():
        for name, call in peers.items():
            times[name] = time_calls(call, arguments.seconds) / arguments.steps * 1e6
    return times


def row_of(rounds, peak, cell, layers, hidden, batch):
    row = {"cell": cell, "layers": layers, "hidden": hidden, "batch": batch}
    row |= {f"{name}_us_per_step": min(times) for name, times in rounds.items()}
    fastest = min(row["torch_us_per_step"], row["onnx_us_per_step"])
    floor = floor_microseconds(peak, cell, layers, hidden, batch)
    row["ratio"] = fastest / row["rnnc_us_per_step"]
    row["floor_share"] = floor / row["rnnc_us_per_step"]
    row["torch_mm_share"] = row["torch_mm_us_per_step"] / fastest
    return row | {"load": round(os.getloadavg()[0], 1), "rounds": rounds}


def shape_of(row):
    return row["cell"], row["layers"], row["hidden"], row["batch"]


def rows_before(arguments):
    """By shape: those of the file that this run adds to."""
    if not arguments.update or not arguments.json.exists():
        return {}
    return {shape_of(row): row for row in json.loads(arguments.json.read_text())["rows"]}


def print_row(row):
    cell, layers, hidden, batch = shape_of(row)
    times = "".join(f"{row[f'{name}_us_per_step']:10.2f}" for name in ("rnnc", "torch", "onnx"))
    shares = f"{100 * row['floor_share']:7.0f}{100 * row['torch_mm_share']:6.0f}"
    rest = f"{row['ratio']:8.2f}{shares}{row['load']:7.1f}"
    print(f"{cell:6}{layers:2}{hidden:6}{batch:4}{times}{rest}", flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rnnc", default="build/default/tools/rnnc", help="the program rnnc")
    parser.add_argument("--cell", nargs="+", choices=GATES, default=list(GATES))
    parser.add_argument("--layers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--hidden", nargs="+", type=int, default=[96, 200, 384, 640, 1024])
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 4, 16, 24, 64])
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2, help="on all sides")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each turn")
    parser.add_argument("--update", action="store_true", help="keep other shapes' rows in the file")
    add_output_argument(parser, "cpu_compare.json")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    header = {
        "device": cpu_name(),
        "torch": torch.__version__,
        "onnxruntime": onnxruntime.__version__,
        "steps": arguments.steps,
        "threads": arguments.threads,
    }
    peak = measure_peak(arguments.threads)
    header |= peak
    print(", ".join(f"{name} {value}" for name, value in header.items()))
    print("µs per step")
    columns = "".join(f"{name:>10}" for name in ("rnnc", "torch", "onnx"))
    print(f"{'cell':6}{'L':>2}{'H':>6}{'B':>4}{columns}{'ratio':>8}{'floor':>7}{'mm':>6}{'load':>7}")
    measured = rows_before(arguments)
    shapes = list(
        itertools.product(arguments.cell, arguments.layers, arguments.hidden, arguments.batch)
    )
    rounds = {shape: {} for shape in shapes}
    for number in range(1, arguments.rounds + 1):
        for shape in shapes:
            for name, time_of_step in measure_round(arguments, *shape).items():
                rounds[shape].setdefault(name, []).append(time_of_step)
            if number == arguments.rounds:
                measured[shape] = row_of(rounds[shape], peak, *shape)
                print_row(measured[shape])
    rows = [measured[shape] for shape in sorted(measured)]
    mean = math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))
    worst = min(row["ratio"] for row in rows)
    print(f"faster peer / rnnc, {len(rows)} shapes: geometric mean {mean:.2f}, worst {worst:.2f}")
    write_result(arguments.json, header | {"geometric_mean": mean, "worst": worst, "rows": rows})


if __name__ == "__main__":
    main()
