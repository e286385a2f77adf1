"""Whole calls of modules on a GPU, beside `rnnc bench`, nn.LSTM and FlashRNN, in one run.

    python3 bench/python_calls.py [--rnnc PATH] [--only streaming] [--json FILE]

Runs with the wheel and PyTorch (`--rnnc rnnc`) or with a build and PYTHONPATH=python. Forward calls of 512
steps, one after another: medians over rounds, in which all take turns, of CUDA events around some calls. Weights
are packed in each call, or before if `frozen`, as `rnnc bench` has it. FlashRNN (the package `flashrnn`, if it
can be imported) is measured with the input's product in front, which the others do too, and without it. Then a
step at a time on one sequence, by the clock of the host, the GPU done with each ("returned": until the call has
returned); sequences of half the length on average beside padded ones; memory over 1,000 changing shapes; and
steps of training under DistributedDataParallel and FSDP2 on one rank. TF32 is off. At the end each figure that
has a target stands beside it; the exit code says nothing of them.
"""

import argparse
import gc
import statistics
import tempfile
import time
from pathlib import Path

import rnnc.torch
import torch
from torch import distributed
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import init_device_mesh

from common import add_output_argument, run_bench, write_result

LSTM = Path(__file__).resolve().parents[1] / "examples/cells/lstm.rnn"
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# (batch, hidden), with inputs as wide.
SHAPES = [(16, 1024), (64, 1024), (1, 512), (16, 300), (33, 700)]
PARTS = ("calls", "streaming", "lengths", "memory", "ranks")
# A run of 2026-11-26 on an H100, where it could be installed: 16x1024 in bf16, us.
EARLIER_FLASHRNN = 3450


def turns(programs, rounds=9, seconds=0.1):
    """Median microseconds of a call of each."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def measure(program, calls):
        torch.cuda.synchronize()
        start.record()
        for _ in range(calls):
            program()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / calls

    times, calls = {}, {}
    for name, program in programs.items():
        measure(program, 3)
        calls[name] = max(1, round(seconds * 1e6 / rounds / measure(program, 1)))
        times[name] = []
    for _ in range(rounds):
        for name, program in programs.items():
            times[name].append(measure(program, calls[name]))
    return {name: statistics.median(values) for name, values in times.items()}


def flashrnn_calls(x, hidden, dtype):
    """Each backend's, with and without the input's product; x is [T, B, I]."""
    try:
        from flashrnn.flashrnn import flashrnn
    except ImportError as error:
        print(f"no FlashRNN: {error}")
        return {}
    device = x.device
    linear = torch.nn.Linear(x.shape[-1], 4 * hidden, bias=False, device=device, dtype=x.dtype)
    weights = torch.randn(4, 1, hidden, hidden, device=device, dtype=x.dtype) * hidden**-0.5
    bias = torch.zeros(4, 1, hidden, device=device, dtype=x.dtype)
    batch_first = x.transpose(0, 1).contiguous()
    shape = (x.shape[1], x.shape[0], 4, 1, hidden)
    given = linear(batch_first).view(shape)
    calls = {}
    for backend in ("cuda_fused", "cuda"):
        def run(gates, backend=backend):
            return flashrnn(gates, weights, bias, function="lstm", backend=backend,
                            dtype={"bf16": "bfloat16", "f32": "float32"}[dtype])
        try:
            run(given)
        except Exception as error:  # a compiler's, of any kind
            print(f"FlashRNN {backend}: {str(error)[-300:]}")
            continue
        calls[f"FlashRNN {backend}"] = lambda run=run: run(linear(batch_first).view(shape))
        calls[f"FlashRNN {backend}, given products"] = lambda run=run: run(given)
    return calls


def whole_calls(rnnc_path, dtype, batch, hidden, steps=512):
    x = torch.randn(steps, batch, hidden, device="cuda", dtype=DTYPES[dtype])
    more = {"device": "cuda", "dtype": DTYPES[dtype]}
    cell, frozen = (rnnc.torch.Cell(LSTM, I=hidden, H=hidden, **more) for _ in range(2))
    frozen.frozen = True
    layer = rnnc.torch.LSTM(hidden, hidden, **more)
    peer = torch.nn.LSTM(hidden, hidden, **more)
    programs = {name: lambda module=module: module(x)
                for name, module in (("Cell", cell), ("Cell, frozen", frozen), ("LSTM", layer),
                                     ("nn.LSTM", peer))}
    if dtype == "bf16" and hidden == 1024:
        programs |= flashrnn_calls(x, hidden, dtype)
    options = {"device": "cuda", "dtype": dtype, "batch": batch, "steps": steps, "seconds": 0.2}

    def bench():
        return run_bench(rnnc_path, [LSTM], {"I": hidden, "H": hidden}, options)

    # Before and after: the GPU is warmer by then, and its clock is not the same.
    both = [bench()]
    times = turns(programs)
    both.append(bench())
    for name, key in (("rnnc bench", "microseconds_per_step"),
                      ("rnnc bench, replayed", "replayed_microseconds_per_step")):
        times[name] = statistics.mean(result[key] for result in both) * steps
    return times


def streaming(hidden=256, steps=2000):
    """Median microseconds from a call to its end, and until it has returned."""
    x = torch.randn(1, 1, hidden, device="cuda")
    cell = rnnc.torch.Cell(LSTM, I=hidden, H=hidden, device="cuda")
    peer = torch.nn.LSTM(hidden, hidden, device="cuda")
    frozen = rnnc.torch.Cell(LSTM, I=hidden, H=hidden, device="cuda")
    frozen.frozen = True
    result = {}
    calls = {
        "Cell": lambda states: cell(x, states=states),
        "Cell, frozen": lambda states: frozen(x, states=states),
        "nn.LSTM": lambda states: peer(x, states),
    }
    for name, call in calls.items():
        states, times, returned = None, [], []
        for _ in range(steps):
            start = time.perf_counter()
            _, states = call(states)
            returned.append((time.perf_counter() - start) * 1e6)
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e6)
        result[name] = statistics.median(times)
        result[f"{name}, returned"] = statistics.median(returned)
    return result


def with_lengths(hidden=512, batch=32, steps=512):
    """Microseconds of a call with lengths from 1 to all steps, beside all steps for all."""
    x = torch.randn(steps, batch, hidden, device="cuda")
    lengths = torch.randint(1, steps + 1, (batch,), generator=torch.Generator().manual_seed(1))
    lengths[0] = steps
    on_device = lengths.cuda()
    cell = rnnc.torch.Cell(LSTM, I=hidden, H=hidden, device="cuda")
    peer = torch.nn.LSTM(hidden, hidden, device="cuda")
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    return turns({
        "Cell": lambda: cell(x),
        "Cell, lengths": lambda: cell(x, lengths=on_device),
        "nn.LSTM": lambda: peer(x),
        "nn.LSTM, packed before": lambda: peer(packed),
        "nn.LSTM, packed": lambda: peer(
            torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)),
    })


def memory(shapes=1000):
    """MiB of the GPU's that calls of changing shapes take up beyond what half of them have."""
    cell = rnnc.torch.Cell(LSTM, I=32, H=32, device="cuda")
    generator, free = torch.Generator().manual_seed(1), []
    for number in range(shapes):
        steps, batch = torch.randint(1, 33, (2,), generator=generator).tolist()
        x = torch.randn(steps, batch, 32, device="cuda", requires_grad=number % 4 == 0)
        with torch.set_grad_enabled(number % 4 == 0):
            y = cell(x)[0]
        if number % 4 == 0:
            y.sum().backward()
        del x, y
        if number + 1 in (shapes // 2, shapes):
            gc.collect()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            free.append(torch.cuda.mem_get_info()[0])
    return (free[0] - free[1]) / 2**20


def one_rank(hidden=1024, batch=16, steps=512, layers=2):
    """Microseconds of a step of training as it is and wrapped, and how far apart the losses are."""
    x = torch.randn(steps, batch, hidden, device="cuda", dtype=torch.bfloat16)

    def make(wrap):
        torch.manual_seed(1)
        layer = rnnc.torch.LSTM(hidden, hidden, layers, device="cuda", dtype=torch.bfloat16)
        model = wrap(torch.nn.Sequential(layer))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step():
            optimizer.zero_grad()
            loss = model(x)[0].float().square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    with tempfile.TemporaryDirectory() as folder, torch.enable_grad():
        place = f"file://{folder}/one"
        distributed.init_process_group("nccl", init_method=place, rank=0, world_size=1)
        mesh = init_device_mesh("cuda", (1,))
        wraps = {
            "alone": lambda model: model,
            "DistributedDataParallel": rnnc.torch.data_parallel,
            "FSDP2": lambda model: fully_shard(model, mesh=mesh),
        }
        programs = {name: make(wrap) for name, wrap in wraps.items()}
        losses = {name: torch.stack([step() for _ in range(5)]) for name, step in programs.items()}
        apart = max(float((l - losses["alone"]).abs().max()) for l in losses.values())
        result = {"microseconds": turns(programs, rounds=5), "losses_apart": apart}
        del programs
        gc.collect()
        distributed.destroy_process_group()
    return result


def show(title, times, base):
    print(title)
    for name, value in times.items():
        print(f"  {name:40}{value:10.1f} us{value / times[base]:8.3f} of {base}", flush=True)


def targets(result):
    """(what, its figure, its target, whether it is reached) of what was measured."""
    found = []
    for call in result.get("calls", ()):
        times, shape = call["microseconds"], f"LSTM {call['batch']}x{call['hidden']} {call['dtype']}"
        for name in ("Cell", "Cell, frozen"):
            beyond = (times[name] / times["rnnc bench"] - 1) * 100
            found.append((f"{shape}: % of {name} beyond `rnnc bench`", beyond, "<= 3", beyond <= 3))
        if shape == "LSTM 16x1024 bf16":
            ratio = times["nn.LSTM"] / times["Cell"]
            found.append((f"{shape}: times as fast as nn.LSTM", ratio, ">= 6", ratio >= 6))
            own = [value for name, value in times.items() if name.startswith("FlashRNN cuda")
                   and "given" not in name]
            ratio = (min(own) if own else EARLIER_FLASHRNN) / times["Cell"]
            where = "" if own else f", which took {EARLIER_FLASHRNN} us in an earlier run on an H100"
            found.append((f"{shape}: times as fast as FlashRNN{where}", ratio, ">= 4", ratio >= 4))
    if "streaming" in result:
        value = result["streaming"]["Cell, frozen"]
        found.append(("a step of 1x256, frozen: us", value, "<= 30", value <= 30))
    if "lengths" in result:
        ratio = result["lengths"]["Cell, lengths"] / result["lengths"]["Cell"]
        found.append(("lengths: of the padded call", ratio, "<= 1.2", ratio <= 1.2))
    if "memory" in result:
        found.append(("1,000 shapes: MiB more than at 500", result["memory"], "<= 64",
                      result["memory"] <= 64))
    if "ranks" in result:
        apart = result["ranks"]["losses_apart"]
        found.append(("one rank, DDP and FSDP2: losses apart", apart, "<= 0.001", apart <= 1e-3))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rnnc", default="build/default/tools/rnnc")
    add_output_argument(parser, "python_calls.json")
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    wanted = [options.only] if options.only else PARTS
    torch.backends.cudnn.allow_tf32 = False
    start = time.perf_counter()
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    with torch.no_grad():
        if "calls" in wanted:
            result["calls"] = []
            for dtype in DTYPES:
                for batch, hidden in SHAPES:
                    times = whole_calls(options.rnnc, dtype, batch, hidden)
                    show(f"LSTM {batch}x{hidden} {dtype}, 512 steps", times, "rnnc bench")
                    result["calls"].append({"dtype": dtype, "batch": batch, "hidden": hidden,
                                            "microseconds": times})
        if "streaming" in wanted:
            result["streaming"] = streaming()
            show("LSTM 1x256 f32, a step at a time", result["streaming"], "nn.LSTM")
        if "lengths" in wanted:
            result["lengths"] = with_lengths()
            show("LSTM 32x512 f32, 512 steps", result["lengths"], "Cell")
    if "memory" in wanted:
        result["memory"] = memory()
    if "ranks" in wanted:
        result["ranks"] = one_rank()
        show("LSTM 2x16x1024 bf16, a step of training", result["ranks"]["microseconds"], "alone")
    found = targets(result)
    print(f"\n{result['device']}, PyTorch {result['torch']}, {time.perf_counter() - start:.0f} s")
    for what, value, target, is_reached in found:
        print(f"  {value:10.4g}  {target:8}  {'reached' if is_reached else 'MISSED ':8} {what}")
    result["targets"] = [{"what": what, "value": value, "target": target, "reached": is_reached}
                         for what, value, target, is_reached in found]
    write_result(options.json, result)


main()
