"""What a step costs that is a call by itself: weights are frozen, and states go from call to call.

    RNNC_LIBRARY=… PYTHONPATH=python python3 bench/streaming.py [--device cuda] [--hidden 256] [--batch 1]

Microseconds of a call, medians over rounds in each of which all take turns: waiting for each result, and
queued one behind another. "Stream" is `Cell.stream`, "frozen" the module within `rnnc.torch.frozen`, "library" its
own call alone, with arrays that stay. Then what a call launches on a GPU, as PyTorch's profiler sees it, and
how long each of that runs; and of the module's call and the Stream's the functions in which most of the
host's time goes.
"""

import argparse
import cProfile
import json
import pstats
import statistics
import time
from collections import Counter
from pathlib import Path

import rnnc.torch
import torch
from rnnc._library import library

CELLS = Path(__file__).resolve().parents[1] / "examples/cells"
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


class Calls:
    """Of one cell; each a function without arguments."""

    def __init__(self, options):
        size, batch, dtype = options.hidden, options.batch, TYPES[options.dtype]
        self.cell = rnnc.torch.Cell(
            CELLS / f"{options.cell}.rnn", I=size, H=size, device=options.device, dtype=dtype
        )
        self.cell.frozen = True
        self.x = torch.randn(1, batch, size, device=options.device, dtype=dtype)
        self.step, self.stream = self.x[0], self.cell.stream(batch)
        _, self.states = self.cell(self.x)
        self.peer = None
        if options.cell in ("lstm", "gru"):
            kind = torch.nn.LSTM if options.cell == "lstm" else torch.nn.GRU
            self.peer = kind(size, size, device=options.device, dtype=dtype)
            _, self.peer_states = self.peer(self.x)
        self.alone = self.cell.stream(batch)
        self.alone(self.step)
        self.y = self.alone(self.step)  # its memory is what the library's call writes

    def frozen(self):
        _, self.states = self.cell(self.x, states=self.states)

    def through_stream(self):
        self.stream(self.step)

    def of_library(self):
        library.rnnc_forward(self.alone.handle, self.alone.turns[1][0].address)

    def of_peer(self):
        _, self.peer_states = self.peer(self.x, self.peer_states)

    def all(self):
        found = {
            "library": self.of_library,
            "Stream": self.through_stream,
            "frozen": self.frozen,
        }
        return found | ({"PyTorch": self.of_peer} if self.peer is not None else {})


def seconds(run, count, after_each, at_end):
    start = time.perf_counter()
    for _ in range(count):
        run()
        after_each()
    at_end()
    return (time.perf_counter() - start) / count


def measure(calls, options, wait):
    """Microseconds, waiting for each and queued."""
    times = {(name, way): [] for name in calls for way in ("waiting", "queued")}
    for _ in range(options.rounds):
        for name, run in calls.items():
            for _ in range(20):
                run()
            wait()
            times[name, "waiting"].append(seconds(run, options.calls, wait, wait))
            times[name, "queued"].append(seconds(run, options.calls, lambda: None, wait))
    return {key: statistics.median(values) * 1e6 for key, values in times.items()}


def launched(run, count=20):
    """By name, how many of it a call launches, and microseconds of one."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(count):
            run()
        torch.cuda.synchronize()
    on_gpu = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    counts, times = Counter(), Counter()
    for event in on_gpu:
        counts[event.name] += 1
        times[event.name] += event.time_range.elapsed_us()
    return {name: (n / count, times[name] / n) for name, n in counts.items()}


def print_host(name, run, count=2000, most=8):
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(count):
        run()
    profile.disable()
    print(f"\nhost, {name}: us of a call in each function itself, as slow as cProfile makes it")
    stats = pstats.Stats(profile).stats
    rows = sorted(((own, calls, place) for place, (_, calls, own, *_) in stats.items()), reverse=True)
    for own, calls, (path, line, function) in rows[:most]:
        where = f"{Path(path).name}:{line} " if line else ""
        print(f"  {own / count * 1e6:6.2f}  {calls / count:4.1f} calls  {where}{function}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--cell", default="lstm", help="one of examples/cells with dims I and H")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dtype", choices=TYPES, default="f32")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--calls", type=int, default=500, help="of each in a round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    is_gpu = options.device.startswith("cuda")
    wait = torch.cuda.synchronize if is_gpu else lambda: None
    with torch.no_grad():
        made = Calls(options)
        calls = made.all()
        times = measure(calls, options, wait)
        print(f"{options.cell}, T 1, B {options.batch}, H {options.hidden}, {options.dtype}, "
              f"{torch.cuda.get_device_name() if is_gpu else 'CPU'}")
        print("us of a call   waiting   queued")
        for name in calls:
            print(f"  {name:10}{times[name, 'waiting']:10.1f}{times[name, 'queued']:9.1f}")
        result = {f"{name}, {way}": value for (name, way), value in times.items()}
        for name in ("Stream", "frozen") if is_gpu else ():
            found = result[f"{name}, launched"] = launched(calls[name])
            print(f"\nlaunched by a call, {name}: {sum(n for n, _ in found.values()):g}")
            for kernel, (count, us) in found.items():
                print(f"  {count:4.1f} of {us:6.2f} us  {kernel[:80]}")
        for name in ("Stream", "frozen"):
            print_host(name, calls[name])
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


main()
