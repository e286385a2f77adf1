"""Data-parallel training on the GPUs of one machine, beside nn.LSTM, in one run.

    PYTHONPATH=python python3 bench/data_parallel.py [--json FILE]

An LSTM of 4 layers, 64 sequences of 512 steps a GPU, H 1024, bf16 by autocast with f32 params, AdamW, under
DistributedDataParallel with NCCL: on one GPU and on all, the same batch on each. Medians of steps over
rounds, in which all take turns, by CUDA events; the slowest rank counts. `alone` is a step without
communication (`no_sync`): what it is faster by is what does not hide behind the backward pass. The layers
are one program, and one each, whose gradients travel while the layers below run; with multiprocessors
spared for NCCL and without. Then, by PyTorch's profiler, how long NCCL's kernels run beside others; 50
losses in f32 as one process has them with the whole batch; and 1,000 steps, whose memory is looked at.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import rnnc.torch
import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from common import add_output_argument, write_result

LAYERS, BATCH, HIDDEN, STEPS = 4, 64, 1024, 512
SPARE = 4


class Stack(nn.Module):
    """Layers that are modules of their own."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(rnnc.torch.LSTM(HIDDEN, HIDDEN) for _ in range(LAYERS))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)[0]
        return x


class Whole(nn.Module):
    """All layers in one module of a kind."""

    def __init__(self, kind, hidden=HIDDEN, layers=LAYERS):
        super().__init__()
        self.lstm = kind(hidden, hidden, layers)

    def forward(self, x):
        return self.lstm(x)[0]


MODELS = {
    "rnnc, a program": lambda: Whole(rnnc.torch.LSTM),
    "rnnc, a program a layer": Stack,
    f"rnnc, a program a layer, {SPARE} spared":
        lambda: rnnc.torch.spare_multiprocessors(Stack(), SPARE),
    "nn.LSTM": lambda: Whole(nn.LSTM),
}


class Training:
    def __init__(self, model, x, dtype=torch.bfloat16):
        self.model = DistributedDataParallel(model.cuda(), device_ids=[x.device])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.x, self.target, self.dtype = x, torch.roll(x, 1, 0), dtype

    def step(self, alone=False):
        with self.model.no_sync() if alone else contextlib.nullcontext():
            with torch.autocast("cuda", self.dtype, enabled=self.dtype != torch.float32):
                loss = (self.model(self.x).float() - self.target).square().mean()
            loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


def milliseconds(step, count):
    """Of a step, on the slowest rank."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    distributed.barrier()
    torch.cuda.synchronize()
    start.record()
    for _ in range(count):
        step()
    end.record()
    end.synchronize()
    taken = torch.tensor(start.elapsed_time(end) / count, device="cuda")
    distributed.all_reduce(taken, distributed.ReduceOp.MAX)
    return taken.item()


def speed(rounds=5, count=4):
    torch.manual_seed(distributed.get_rank())
    x = torch.randn(STEPS, BATCH, HIDDEN, device="cuda")
    trainings, times = {}, {}
    for name, make in MODELS.items():
        torch.manual_seed(1)
        trainings[name] = Training(make(), x)
        times[name] = {"step": [], "alone": []}
        for alone in (True, False):
            milliseconds(lambda: trainings[name].step(alone), 2)
    for _ in range(rounds):
        for name, training in trainings.items():
            times[name]["step"].append(milliseconds(training.step, count))
            times[name]["alone"].append(milliseconds(lambda: training.step(True), count))
    tokens = STEPS * BATCH * distributed.get_world_size()
    result = {}
    for name, own in times.items():
        step, alone = (statistics.median(own[kind]) for kind in ("step", "alone"))
        result[name] = {
            "milliseconds": step, "milliseconds_alone": alone, "tokens_per_second": tokens / step * 1e3
        }
    return result


def losses(steps=50, sequences=16, length=64, hidden=256):
    """Of all ranks' batches together, f32."""
    torch.manual_seed(1)
    ranks, rank = distributed.get_world_size(), distributed.get_rank()
    whole = torch.randn(length, sequences, hidden, device="cuda")
    part = sequences // ranks
    x = whole[:, rank * part : (rank + 1) * part].contiguous()
    training = Training(Whole(rnnc.torch.LSTM, hidden, 2), x, torch.float32)
    found = []
    for _ in range(steps):
        loss = training.step().detach()
        distributed.all_reduce(loss)
        found.append(loss.item() / ranks)
    return found


def overlap(steps=3):
    """Microseconds of a step in which NCCL's kernels run, and other kernels beside them."""
    torch.manual_seed(1)
    training = Training(Stack(), torch.randn(STEPS, BATCH, HIDDEN, device="cuda"))
    for _ in range(4):
        training.step()
    distributed.barrier()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(steps):
            training.step()
        torch.cuda.synchronize()
    nccl, others = [], []
    for event in profiled.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            span = event.time_range.start, event.time_range.end
            (nccl if "nccl" in event.name else others).append(span)
    total = sum(end - start for start, end in nccl)
    return {"nccl": total / steps, "beside_others": time_beside(nccl, others) / steps}


def time_beside(spans, others):
    """Of spans that do not meet, how long any of the others runs."""
    beside, last = 0.0, 0.0
    for start, end in sorted(others):
        start, last = max(start, last), max(end, last)
        beside += sum(max(0, min(end, b) - max(start, a)) for a, b in spans)
    return beside


def endurance(steps=1000):
    """How long they take, and what memory is in use before and after."""
    torch.manual_seed(1)
    x = torch.randn(STEPS, BATCH, HIDDEN, device="cuda")
    training = Training(Stack(), x)
    for _ in range(5):
        training.step()
    torch.cuda.synchronize()
    free, start = torch.cuda.mem_get_info()[0], time.perf_counter()
    for _ in range(steps):
        training.step()
    torch.cuda.synchronize()
    return {
        "steps": steps,
        "seconds": time.perf_counter() - start,
        "bytes_grown": free - torch.cuda.mem_get_info()[0],
    }


PARTS = {"speed": speed, "losses": losses, "endurance": endurance, "overlap": overlap}


def run_rank(rank, ranks, folder, parts):
    torch.cuda.set_device(rank)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    distributed.init_process_group(
        "nccl", init_method=f"file://{folder}/store{ranks}", rank=rank, world_size=ranks
    )
    for name in parts:
        result = PARTS[name]()
        torch.cuda.empty_cache()
        if rank == 0:
            Path(folder, f"{name}{ranks}.json").write_text(json.dumps(result))
    distributed.destroy_process_group()


def driver():
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gpus", type=int, default=torch.cuda.device_count())
    add_output_argument(parser, "data_parallel.json")
    options = parser.parse_args()
    result = {
        "device": torch.cuda.get_device_name(),
        "gpus": options.gpus,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "driver": driver(),
    }
    counts = sorted({1, options.gpus})
    with tempfile.TemporaryDirectory() as folder:
        for ranks in counts:
            parts = list(PARTS) if ranks == counts[-1] else ["speed", "losses"]
            multiprocessing.spawn(run_rank, (ranks, folder, parts), nprocs=ranks)
            for part in parts:
                found = json.loads(Path(folder, f"{part}{ranks}.json").read_text())
                result.setdefault(part, {})[str(ranks)] = found
            for name, times in result["speed"][str(ranks)].items():
                first = result["speed"]["1"][name]["tokens_per_second"]
                print(f"{ranks} x {name:38}{times['milliseconds']:9.2f} ms, alone "
                      f"{times['milliseconds_alone']:9.2f} ms{times['tokens_per_second']:12.0f} tokens/s "
                      f"{times['tokens_per_second'] / first:6.3f}x", flush=True)
            write_result(options.json, result)
    one, many = (result["losses"][str(count)] for count in (counts[0], counts[-1]))
    result["worst_loss_difference"] = max(abs(a - b) / abs(a) for a, b in zip(one, many))
    print(f"50 losses: {one[0]:.6f} … {one[-1]:.6f}, other by {result['worst_loss_difference']:.1e}")
    print(result["overlap"], result["endurance"])
    write_result(options.json, result)


if __name__ == "__main__":
    main()
