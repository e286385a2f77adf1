"""What a call from Python costs beyond the library's own, beside nn.LSTM; on the CPU, in one run.

    RNNC_LIBRARY=… PYTHONPATH=python python3 bench/python_overhead.py [--steps 4] [--batch 1] [--size 32]

Each time is the median over rounds, in each of which all take turns. The library's own calls are those
that the last call from Python has made, with its arrays.
"""

import argparse
import copy
import statistics
import time
from pathlib import Path

import rnnc.torch
import torch
from rnnc._library import library

CELLS = Path(__file__).resolve().parents[1] / "examples/cells"


def seconds(function, calls):
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def library_call(module, x, training):
    """The forward call that a module has made last; and its results, which it writes to."""
    results = module(x)
    compiled = module.source.last
    ready = [r for r in compiled.ready.values() if (r.shape.wanted is not None) == training][-1]
    handle, address = ready.program.handle, ready.forward_args.address
    return (lambda: library.rnnc_forward(handle, address)), (results, ready)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--calls", type=int, default=500, help="of each in a round")
    options = parser.parse_args()
    torch.set_num_threads(1)
    size = options.size
    cell = rnnc.torch.Cell(CELLS / "lstm.rnn", I=size, H=size)
    modules = {"Cell": cell, "LSTM": rnnc.torch.LSTM(size, size), "nn.LSTM": torch.nn.LSTM(size, size)}
    frozen = copy.deepcopy(cell)
    frozen.frozen = True
    for training in (False, True):
        x = torch.randn(options.steps, options.batch, size, requires_grad=training)
        with torch.set_grad_enabled(training):
            call, kept = library_call(cell, x, training)
            programs = {"library": call}
            programs |= {name: lambda module=m: module(x) for name, m in modules.items()}
            if not training:
                programs["Cell, frozen"] = lambda: frozen(x)
            times = {name: [] for name in programs}
            for _ in range(options.rounds):
                # The arrays of `kept` are the library's while it is called by itself.
                call, kept = library_call(cell, x, training)
                programs["library"] = call
                for name, program in programs.items():
                    program()
                    times[name].append(seconds(program, options.calls))
        median = {name: statistics.median(values) * 1e6 for name, values in times.items()}
        print("a forward call that gradients follow" if training else "inference")
        for name, value in median.items():
            beyond = value - median["library"]
            ratio = value / median["nn.LSTM"]
            print(f"  {name:14}{value:7.1f} us{beyond:8.1f} beyond the library{ratio:7.2f}x nn.LSTM")


main()
