"""What a call from Python costs beyond the library's own, beside nn.LSTM; on the CPU, in one run.

    RNNC_LIBRARY=… PYTHONPATH=python python3 bench/python_overhead.py [--steps 4] [--batch 1] [--size 32]

Each time is the median over rounds, in each of which all take turns. The library's own calls are made
with the arguments of a call from Python. "streaming": weights are frozen, and states go from call to
call. "PyTorch": what it takes itself to allocate, and to go forward and backward through a Function of
as many params that computes nothing.
"""

import argparse
import copy
import functools
import statistics
import time
from pathlib import Path

import rnnc.torch
import torch
from rnnc._library import library
from rnnc.torch import calls

CELLS = Path(__file__).resolve().parents[1] / "examples/cells"


def seconds(function, count):
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count


class Library:
    """The library's own calls of a cell, and their arrays."""

    def __init__(self, cell, x, dy, training=False, states=None):
        cell(x, states=states)
        compiled, params = cell.source.last, cell.params()
        arguments = calls.usual(compiled, [x], params, states)
        wanted = None
        if training:
            flags = [t.requires_grad for t in (x, *params)]
            wanted = bytes([*flags, *compiled.no_flags])
        self.results = calls.forward(arguments, wanted, frozen=cell.frozen)
        ready = compiled.calls(arguments, wanted)
        if training:
            *results, reserve = self.results
            gradients = [dy, *compiled.no_states]
            y = results[: ready.outputs]
            self.gradients = calls.backward(arguments, wanted, y, reserve, gradients)
        self.arguments, self.handle, self.ready = arguments, ready.program.handle, ready
        self.frozen = cell.frozen

    def forward(self):
        self.ready.forward_args.struct.reuse_params = self.frozen
        library.rnnc_forward(self.handle, self.ready.forward_args.address)

    def train(self):
        library.rnnc_forward(self.handle, self.ready.forward_args.address)
        library.rnnc_backward(self.handle, self.ready.backward_args.address)


class _Nothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, results, *tensors):
        ctx.tensors = tensors
        return tuple(map(torch.empty_like, results))

    @staticmethod
    def backward(ctx, *gradients):
        return (None, *[torch.empty_like(t) if t.requires_grad else None for t in ctx.tensors])


def nothing(cell, x):
    """A module that only makes the results of `cell`."""
    y, states = cell(x)
    results, params = [t.detach() for t in (y, *states)], list(cell.parameters())

    def module(x):
        if torch.is_grad_enabled():
            y, *states = _Nothing.apply(results, x, *params)
        else:
            y, *states = map(torch.empty_like, results)
        return y, states

    return module


def train(module, params, x, dy):
    y, _ = module(x)
    for p in params:
        p.grad = None
    y.backward(dy)


class Stream:
    """Calls of a module whose states go from each to the next."""

    def __init__(self, call):
        self.call, self.states = call, None

    def __call__(self):
        _, self.states = self.call(self.states)


def measure(title, programs, make_library, options):
    """Prints the medians. The library comes first; its arrays are its own while it runs."""
    times = {name: [] for name in ("library", *programs)}
    for _ in range(options.rounds):
        own = make_library()
        own()
        times["library"].append(seconds(own, options.calls))
        for name, program in programs.items():
            program()
            times[name].append(seconds(program, options.calls))
    median = {name: statistics.median(values) * 1e6 for name, values in times.items()}
    print(title)
    for name, value in median.items():
        beyond = f"{value - median['library']:8.1f} beyond the library"
        ratio = f"{value / median['nn.LSTM']:7.2f}x nn.LSTM"
        print(f"  {name:14}{value:7.1f} us" + ("" if name == "PyTorch" else beyond + ratio))


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
    frozen = copy.deepcopy(cell)
    frozen.frozen = True
    lstm, peer = rnnc.torch.LSTM(size, size), torch.nn.LSTM(size, size)
    x = torch.randn(options.steps, options.batch, size)
    dy = torch.randn(options.steps, options.batch, size)
    modules = {"PyTorch": nothing(cell, x), "Cell": cell, "LSTM": lstm, "nn.LSTM": peer}
    with torch.no_grad():
        programs = {name: lambda m=m: m(x) for name, m in modules.items()}
        programs["Cell, frozen"] = lambda: frozen(x)
        measure("inference", programs, lambda: Library(cell, x, dy).forward, options)
        _, states = frozen(x)
        programs = {
            "Cell": Stream(lambda states: frozen(x, states=states)),
            "nn.LSTM": Stream(lambda states: peer(x, states)),
        }
        own = functools.partial(Library, frozen, x, dy, states=states)
        measure("streaming", programs, lambda: own().forward, options)
    x.requires_grad_()
    own = functools.partial(Library, cell, x, dy, training=True)
    programs = {name: lambda m=m: m(x) for name, m in modules.items()}
    measure("a forward call that gradients follow", programs, lambda: own().forward, options)
    params = {"PyTorch": cell, "Cell": cell, "LSTM": lstm, "nn.LSTM": peer}
    params = {name: [x, *module.parameters()] for name, module in params.items()}
    programs = {name: lambda m=m, p=params[name]: train(m, p, x, dy) for name, m in modules.items()}
    measure("forward and backward", programs, lambda: own().train, options)


main()
