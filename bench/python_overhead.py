"""What a call from Python costs beyond the library's own, beside nn.LSTM; on the CPU, in one run.

    RNNC_LIBRARY=… PYTHONPATH=python python3 bench/python_overhead.py [--steps 4] [--batch 1] [--size 32]

Each time is the median over rounds, in each of which all take turns. "library": its own calls, alone, with the
arguments of a call from Python. "PyTorch": what it takes itself to allocate the results, or to go forward and
backward through a Function of as many tensors that keeps them, computes nothing and allocates its results and
gradients. "streaming": weights are frozen, and states go from call to call. Then sequences of half the length on
average beside padded ones (steps, sequences, units), and what `import rnnc` takes beyond NumPy.
"""

import argparse
import copy
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import rnnc.torch
import torch
from rnnc._library import library
from rnnc.torch import calls

CELLS = Path(__file__).resolve().parents[1] / "examples/cells"


class Library:
    """The library's own calls of a module, and their arrays."""

    def __init__(self, module, x, dy, training=False, states=None, lengths=None, reset=None):
        source, params = module.whole()
        compiled = source.for_tensors(x, params)
        call, tensors = calls.checked(compiled, [x], params, states, lengths, reset)
        call.run(tensors)
        self.ready = compiled.calls(call.training if training else call.inference)
        if training:
            for _ in range(2):  # the second time the workspace that is kept is large enough for both
                results, reserve = calls.training_forward(call, tensors)
                saved = [results[0], *tensors]
                gradients = [dy, *[None] * len(source.states)]
                made = self.ready.backward(saved, reserve, gradients)
            self.kept = tensors, results, reserve, made
        else:
            self.kept = tensors, self.ready.forward(tensors, frozen=module.frozen)
        self.handle = self.ready.program.handle
        self.frozen = module.frozen

    def forward(self):
        self.ready.forward_args.struct.reuse_params = self.frozen
        library.rnnc_forward(self.handle, self.ready.forward_args.address)

    def train(self):
        library.rnnc_forward(self.handle, self.ready.forward_args.address)
        library.rnnc_backward(self.handle, self.ready.backward_args.address)


class Nothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, results, *tensors):
        ctx.save_for_backward(*tensors)
        return tuple(map(torch.empty_like, results))

    @staticmethod
    def backward(ctx, *gradients):
        return (None, *[torch.empty_like(t) if t.requires_grad else None for t in ctx.saved_tensors])


def nothing(module, x):
    """A module that only makes the results of another."""
    y, states = module(x)
    results, params = [t.detach() for t in (y, *states)], list(module.parameters())

    def run(x):
        if torch.is_grad_enabled():
            y, *states = Nothing.apply(results, x, *params)
        else:
            y, *states = map(torch.empty_like, results)
        return y, states

    return run


def training(module, params, dy):
    """A step of training with one input."""

    def run(x):
        y, _ = module(x)
        for p in (x, *params):
            p.grad = None
        y.backward(dy)

    return run


class Stream:
    """Calls of a module whose states go from each to the next."""

    def __init__(self, call):
        self.call, self.states = call, None

    def __call__(self):
        _, self.states = self.call(self.states)


def seconds(function, count):
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count


def medians(makers, options):
    """Microseconds of what each makes; a library's arrays are its own while it runs."""
    times = {name: [] for name in makers}
    for _ in range(options.rounds):
        for name, make in makers.items():
            run = make()
            run()
            times[name].append(seconds(run, options.calls))
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}


def row(module, x, dy, train=False, **more):
    """What makes the library's calls, PyTorch's part and whole calls of a module."""

    def whole(run):
        return training(run, list(module.parameters()), dy) if train else run

    def of_library():
        made = Library(module, x, dy, training=torch.is_grad_enabled(), **more)
        return made.train if train else made.forward

    empty, run = whole(nothing(module, x)), whole(module)
    return {
        "library": of_library,
        "PyTorch": lambda: lambda: empty(x),
        "call": lambda: lambda: run(x, **more),
    }


def measure(title, rows, peer, options):
    """Prints microseconds of rows by their names, beside those of what stands for nn.LSTM."""
    makers = {(name, column): make for name, row in rows.items() for column, make in row.items()}
    times = medians(makers | {"nn.LSTM": lambda: peer}, options)
    result = {"nn.LSTM": times.pop("nn.LSTM")}
    print(f"\n{title:26}  library  PyTorch     call  beyond the library  and PyTorch  of nn.LSTM")
    for name in rows:
        own, of_torch, call = (times[name, column] for column in ("library", "PyTorch", "call"))
        print(f"  {name:24}{own:9.1f}{of_torch:9.1f}{call:9.1f}{call - own:20.1f}"
              f"{call - own - of_torch:13.1f}{call / result['nn.LSTM']:12.3f}")
        result[name] = {"library": own, "PyTorch": of_torch, "call": call}
    print(f"  {'nn.LSTM':42}{result['nn.LSTM']:9.1f}", flush=True)
    return result


def with_lengths(options, steps, batch, hidden):
    """Prints microseconds of calls with lengths from 1 to all steps, beside all steps for all."""
    x = torch.randn(steps, batch, hidden)
    lengths = torch.randint(1, steps + 1, (batch,), generator=torch.Generator().manual_seed(1))
    lengths[0] = steps
    lstm, peer = rnnc.torch.LSTM(hidden, hidden), torch.nn.LSTM(hidden, hidden)
    cell = rnnc.torch.Cell(CELLS / "lstm.rnn", I=hidden, H=hidden)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    times = {
        "Cell": (lambda: cell(x), lambda: cell(x, lengths=lengths)),
        "LSTM, packed sequences": (lambda: lstm(x), lambda: lstm(packed)),
        "nn.LSTM, packed sequences": (lambda: peer(x), lambda: peer(packed)),
    }
    result = {}
    print(f"\nlengths, T {steps} B {batch} H {hidden}      padded  lengths  of padded")
    for name, pair in times.items():
        medians_of = [[], []]
        for _ in range(max(3, options.rounds // 3)):
            for run, found in zip(pair, medians_of):
                found.append(seconds(run, max(3, 240_000 // (steps * batch * hidden))) * 1e6)
        padded, shorter = map(statistics.median, medians_of)
        print(f"  {name:30}{padded:7.0f}{shorter:9.0f}{shorter / padded:11.2f}", flush=True)
        result[name] = {"padded": padded, "lengths": shorter}
    return result


def import_seconds(rounds=7):
    """Least of a process that imports rnnc, beyond one that imports NumPy alone."""
    found = {"numpy": [], "numpy, rnnc": []}
    for _ in range(rounds):
        for names, times in found.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {names}"], check=True)
            times.append(time.perf_counter() - start)
    return min(found["numpy, rnnc"]) - min(found["numpy"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--calls", type=int, default=500, help="of each in a round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the microseconds go, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    size = options.size
    cell = rnnc.torch.Cell(CELLS / "lstm.rnn", I=size, H=size)
    lstm, peer = rnnc.torch.LSTM(size, size), torch.nn.LSTM(size, size)
    frozen = copy.deepcopy(cell)
    frozen.frozen = True
    x = torch.randn(options.steps, options.batch, size)
    dy = torch.randn(options.steps, options.batch, size)
    result = {}
    with torch.no_grad():
        rows = {"Cell": row(cell, x, dy), "LSTM": row(lstm, x, dy), "frozen Cell": row(frozen, x, dy)}
        lengths = torch.full((options.batch,), options.steps, dtype=torch.int32)
        rows["Cell, lengths"] = row(cell, x, dy, lengths=lengths)
        rows["Cell, int64 lengths"] = row(cell, x, dy, lengths=lengths.long())
        reset = torch.zeros(options.steps, options.batch, dtype=torch.bool)
        rows["Cell, resets"] = row(cell, x, dy, reset=reset)
        result["inference"] = measure("inference", rows, lambda: peer(x), options)
        _, states = frozen(x)
        streamed = row(frozen, x, dy)
        streamed["library"] = lambda: Library(frozen, x, dy, states=states).forward
        streamed["call"] = lambda: Stream(lambda states: frozen(x, states=states))
        of_peer = Stream(lambda states: peer(x, states))
        result["streaming"] = measure("streaming", {"frozen Cell": streamed}, of_peer, options)
    x.requires_grad_()
    rows = {"Cell": row(cell, x, dy), "LSTM": row(lstm, x, dy)}
    title = "forward, gradients follow"
    result["forward"] = measure(title, rows, lambda: peer(x), options)
    rows = {"Cell": row(cell, x, dy, train=True), "LSTM": row(lstm, x, dy, train=True)}
    step = training(peer, list(peer.parameters()), dy)
    result["training"] = measure("forward and backward", rows, lambda: step(x), options)
    with torch.no_grad():
        shapes = [(20, 8, 64), (50, 16, 64), (100, 16, 256)]
        result["lengths"] = {"x".join(map(str, s)): with_lengths(options, *s) for s in shapes}
    result["import_seconds"] = import_seconds()
    print(f"\nimport rnnc: {result['import_seconds']:.3f} s beyond NumPy")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


main()
