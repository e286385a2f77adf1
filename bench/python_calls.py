"""Whole calls of modules on a GPU, beside `rnnc bench`, nn.LSTM and FlashRNN, in one run.

    PYTHONPATH=python python3 bench/python_calls.py --rnnc PATH [--only streaming] [--json FILE]

Forward calls of 512 steps, one after another: medians over rounds, in which all take turns, of CUDA events
around some calls. Weights are packed in each call, or before if `frozen`, as `rnnc bench` has it. FlashRNN
(the package `flashrnn`, if it can be imported) is measured with the input's product in front, which the
others do too, and without it. Then a step at a time on one sequence, by the clock of the host, the GPU
done with each ("returned": until the call has returned); and sequences of half the length on average beside padded ones. TF32 is off.
"""

import argparse
import statistics
import time
from pathlib import Path

import rnnc.torch
import torch

from common import add_output_argument, run_bench, write_result

LSTM = Path(__file__).resolve().parents[1] / "examples/cells/lstm.rnn"
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# (batch, hidden), with inputs as wide.
SHAPES = [(16, 1024), (64, 1024), (1, 512), (16, 300), (33, 700)]


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
    times = turns(programs)
    bench = run_bench(rnnc_path, [LSTM], {"I": hidden, "H": hidden},
                      {"device": "cuda", "dtype": dtype, "batch": batch, "steps": steps,
                       "seconds": 0.2})
    times["rnnc bench"] = bench["microseconds_per_step"] * steps
    times["rnnc bench, replayed"] = bench["replayed_microseconds_per_step"] * steps
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


def show(title, times, base):
    print(title)
    for name, value in times.items():
        print(f"  {name:40}{value:10.1f} us{value / times[base]:8.3f} of {base}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rnnc", default="build/default/tools/rnnc")
    add_output_argument(parser, "python_calls.json")
    parser.add_argument("--only", choices=["calls", "streaming", "lengths"])
    options = parser.parse_args()
    wanted = [options.only] if options.only else ["calls", "streaming", "lengths"]
    torch.backends.cudnn.allow_tf32 = False
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "calls": []}
    with torch.no_grad():
        for dtype in DTYPES:
            for batch, hidden in SHAPES if "calls" in wanted else ():
                times = whole_calls(options.rnnc, dtype, batch, hidden)
                show(f"LSTM {batch}x{hidden} {dtype}, 512 steps", times, "rnnc bench")
                print(f"  {times['nn.LSTM'] / times['Cell']:.2f} times as fast as nn.LSTM")
                result["calls"].append({"dtype": dtype, "batch": batch, "hidden": hidden,
                                        "microseconds": times})
        if "streaming" in wanted:
            result["streaming"] = streaming()
            show("LSTM 1x256 f32, a step at a time", result["streaming"], "nn.LSTM")
        if "lengths" in wanted:
            result["lengths"] = with_lengths()
            show("LSTM 32x512 f32, 512 steps", result["lengths"], "Cell")
    write_result(options.json, result)


main()
