"""Models trained by several ranks: over NCCL with a GPU each where there are two, else over gloo.

All that ranks do, they do once, in the processes of one start (`Work`); tests look at what came out.
"""

import contextlib
import copy
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import unittest
from datetime import timedelta
from pathlib import Path

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

import rnnc.torch
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

CELLS = Path(__file__).resolve().parents[2] / "examples/cells"
RANKS = 2
GPUS = torch.cuda.is_available() and torch.cuda.device_count() >= RANKS
STEPS = 50
# In 2.8 FSDP2 over gloo takes other gradients than their mean, those of nn.LSTM too.
FSDP = GPUS or not torch.__version__.startswith("2.8.")


class Chain(nn.Module):
    """Layers of all kinds."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        torch.manual_seed(1)
        recurrent = rnnc.torch.Cell(CELLS / "lstm.rnn", I=3, H=4, dtype=dtype)
        gru = rnnc.torch.GRU(4, 4, dtype=dtype)
        self.parts = nn.ModuleList(
            [nn.Linear(3, 3, dtype=dtype), recurrent, gru, nn.Linear(4, 2, dtype=dtype)]
        )

    def forward(self, x):
        first, cell, gru, last = self.parts
        return last(gru(cell(first(x))[0])[0])


def batch_of(rank, sequences=2, dtype=torch.float32):
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(5, sequences, 3, generator=generator, dtype=dtype)


def loss_of(model, x):
    return (model(x).float() if x.dtype == torch.float32 else model(x)).square().mean()


class Work:
    """What a rank does; without ranks (`count` 1), the same with the batches of all."""

    def __init__(self, rank=0, count=1):
        self.rank, self.count = rank, count
        self.device = torch.device("cuda", rank) if GPUS else torch.device("cpu")

    # ---- Pieces ----

    def own(self, batches):
        """This rank's of some batches, or all of them as one."""
        x = batches[self.rank] if self.count > 1 else torch.cat(batches, 1)
        return x.to(self.device)

    def model(self, kind="ddp", dtype=torch.float32):
        model = Chain(dtype).to(self.device)
        if self.count == 1:
            return model
        if kind == "fsdp":
            mesh = init_device_mesh(self.device.type, (self.count,))
            for part in model.parts:
                fully_shard(part, mesh=mesh)
            return fully_shard(model, mesh=mesh)
        if kind == "torchs":
            return DistributedDataParallel(model, device_ids=[self.device] if GPUS else None)
        model = rnnc.torch.data_parallel(model)
        if kind == "compiled":
            return torch.compile(model, backend="inductor" if GPUS else "aot_eager")
        return model

    def mean(self, loss):
        """Of all ranks."""
        loss = loss.detach().double()
        if self.count > 1:
            distributed.all_reduce(loss)
        return loss.item() / self.count

    def train(self, kind, dtype=torch.float32, steps=STEPS, halves=False):
        model = self.model(kind, dtype)
        x = self.own([batch_of(rank, dtype=dtype) for rank in range(RANKS)])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.autocast(self.device.type, torch.bfloat16, enabled=halves):
                loss = loss_of(model, x)
            loss.backward()
            optimizer.step()
            losses.append(self.mean(loss))
        return losses

    def gradients(self, model):
        return torch.cat([p.grad.flatten() for p in model.parameters()]).tolist()

    # ---- What is looked at ----

    def ddp(self):
        return self.train("ddp")

    def torchs_own(self):
        return self.train("torchs")

    def compiled(self):
        return self.train("compiled")

    def fsdp(self):
        return self.train("fsdp") if FSDP else None

    def doubles(self):
        return None if GPUS else self.train("ddp", torch.float64)

    def halves(self):
        return self.train("ddp", halves=True)

    def accumulated(self):
        """Three batches before ranks meet."""
        model = self.model()
        for part in range(3):
            x = self.own([batch_of(10 * part + rank) for rank in range(RANKS)])
            alone = part < 2 and self.count > 1
            with model.no_sync() if alone else contextlib.nullcontext():
                loss_of(model, x).backward()
        return self.gradients(model)

    def unequal(self):
        """Of other sizes, as a last batch is: each rank's mean counts as its part of all."""
        model, sizes = self.model(), [3, 1]
        x = self.own([batch_of(rank, size) for rank, size in enumerate(sizes)])
        (loss_of(model, x) * x.shape[1] * self.count / sum(sizes)).backward()
        return self.gradients(model)

    def joined(self):
        """The second rank has one batch less, which takes no part in the last mean."""
        model = self.model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        first = self.own([batch_of(rank) for rank in range(RANKS)])
        batches = [first] if self.rank == 1 else [first, batch_of(7).to(self.device)]
        join = model.join(divide_by_initial_world_size=False) if self.count > 1 else None
        with join or contextlib.nullcontext():
            for x in batches:
                optimizer.zero_grad()
                loss_of(model, x).backward()
                optimizer.step()
        return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()

    def saved(self, folder):
        """Weights that ranks have trained, and what they make of an input."""
        found = {}
        for kind in ("ddp", "fsdp"):
            if kind == "fsdp" and not FSDP:
                continue
            model = self.model(kind)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
            for _ in range(3):
                optimizer.zero_grad()
                loss_of(model, self.own([batch_of(0), batch_of(1)])).backward()
                optimizer.step()
            whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
            state = get_model_state_dict(model, options=whole)
            if self.rank == 0:
                torch.save(state, f"{folder}/{kind}.pt")
            found[kind] = model(batch_of(5).to(self.device)).detach().flatten().tolist()
        return found

    def sharing(self):
        """Persistent kernels and NCCL's at once, on two streams: neither waits for the other for ever."""
        if not GPUS:
            return None
        torch.manual_seed(1)
        module = rnnc.torch.LSTM(512, 512, 2).to(self.device)
        x = torch.randn(64, 32, 512, device=self.device)
        expected = module(x)[0].detach()
        stream, numbers = torch.cuda.Stream(), torch.ones(1 << 24, device=self.device)
        torch.cuda.synchronize()
        same = True
        for turn in range(30):
            with torch.cuda.stream(stream):
                numbers.fill_(self.rank + turn)
                work = distributed.all_reduce(numbers, async_op=True)
            for _ in range(1 + (turn + self.rank) % 3):
                y = module(x)[0]
                torch.autograd.grad(y.sum(), module.weight_hh_l0)
            same = same and torch.equal(y, expected)
            with torch.cuda.stream(stream):
                work.wait()
            stream.synchronize()
            same = same and float(numbers[-1]) == 2 * turn + 1
        return same

    def in_constant_memory(self):
        """Bytes that 1,000 steps more have left of those that are free."""
        if not GPUS:
            return None
        model = self.model()
        x = self.own([batch_of(rank) for rank in range(RANKS)])
        free = []
        for step in range(1200):
            loss_of(model, x).backward()
            if step in (199, 1199):
                torch.cuda.synchronize()
                free.append(torch.cuda.mem_get_info()[0])
        return free[0] - free[1]

    # ---- What ranks refuse ----

    def refused(self):
        """The words of each."""
        return {
            name: self._words_of(getattr(self, f"_{name}"))
            for name in ("shapes", "equations", "versions", "names", "places", "no_gradient")
        }

    def _words_of(self, wrong):
        """This rank's error; the group is one that nobody needs afterwards."""
        try:
            wrong()
        except (ValueError, RuntimeError) as error:
            return f"{type(error).__name__}: {error}"
        return "nothing"

    def _shapes(self):
        size = 4 + self.rank
        rnnc.torch.data_parallel(nn.Sequential(nn.Linear(3, 4), rnnc.torch.GRU(4, size)).to(self.device))

    def _equations(self):
        text = "cell Wrong[I](x: [I]) -> h {{\n  state h: [I]\n  param W: [I, I]\n  h[t] = {}(W @ x[t])\n}}\n"
        cell = rnnc.torch.Cell(text.format(("tanh", "relu")[self.rank]), I=3)
        rnnc.torch.check_ranks(nn.ModuleDict({"cell": cell}).to(self.device))

    def _versions(self):
        before = rnnc.version
        rnnc.version = lambda: f"0.0.{self.rank}"
        try:
            rnnc.torch.check_ranks(Chain().to(self.device))
        finally:
            rnnc.version = before

    def _names(self):
        rnnc.torch.check_ranks(Chain().to(self.device).parts[: 3 + self.rank])

    def _places(self):
        """On a GPU that is the first rank's, or on none."""
        if not GPUS:
            return
        model = nn.ModuleList([nn.Linear(2, 2, device="cuda:0"), nn.Linear(2, 2)])
        rnnc.torch.data_parallel(model)

    def _no_gradient(self):
        model = Chain().to(self.device)
        model.add_module("unused", rnnc.torch.Cell("gru", I=3, H=2).to(self.device))
        model = rnnc.torch.data_parallel(model)
        for _ in range(2):
            loss_of(model, self.own([batch_of(0), batch_of(1)])).backward()


SCENARIOS = (
    "ddp torchs_own compiled fsdp doubles halves accumulated unequal joined saved sharing "
    "in_constant_memory refused"
).split()


def run_rank(rank, folder, names):
    os.environ["LOCAL_RANK"] = str(rank)
    torch.set_num_threads(1)
    if GPUS:
        torch.cuda.set_device(rank)
    torch.backends.cuda.matmul.allow_tf32 = False
    distributed.init_process_group(
        "nccl" if GPUS else "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=RANKS,
        timeout=timedelta(seconds=120),
    )
    work, found = Work(rank, RANKS), {}
    for name in names:
        try:
            found[name] = work.saved(folder) if name == "saved" else getattr(work, name)()
        except Exception:
            found[name] = traceback.format_exc()
            break  # ranks are not at the same place any more
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    if sorted(names) != sorted(found):
        os._exit(1)
    # The group's threads end with the last that refers to it, which the end of the process must not be.
    del work
    torch.compiler.reset()
    gc.collect()
    distributed.barrier()
    distributed.destroy_process_group()


def results_of(names, folder, **environment):
    """Of each rank, what it found."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        multiprocessing.spawn(run_rank, (folder, names), nprocs=RANKS)
    except multiprocessing.ProcessRaisedException:
        raise
    except multiprocessing.ProcessExitedException:
        pass  # what it found says why
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(RANKS)]


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.found = results_of(SCENARIOS, cls.folder.name)

    def result(self, name, rank=0):
        if name not in self.found[rank] or isinstance(self.found[rank][name], str):
            texts = [text for own in self.found for text in own.values() if isinstance(text, str)]
            self.fail("\n".join([f"rank {rank} did not get through {name}:", *texts]))
        return self.found[rank][name]

    def close(self, found, expected, limit):
        self.assertEqual(len(found), len(expected))
        scale = max(map(abs, expected))
        for a, b in zip(found, expected):
            self.assertLessEqual(abs(a - b), limit * scale)

    def test_losses_as_of_one(self):
        expected = Work().train("ddp")
        self.assertLess(expected[-1], 0.9 * expected[0])
        for name in ("ddp", "torchs_own", "compiled", "fsdp"):
            with self.subTest(name):
                found = self.result(name)
                if found is None:
                    continue
                self.close(found, expected, 1e-4)
                self.assertEqual(found, self.result(name, 1))
        with self.subTest("halves"):
            self.close(self.result("halves"), Work().train("ddp", halves=True), 0.03)
        if not GPUS:
            with self.subTest("doubles"):
                self.close(self.result("doubles"), Work().train("ddp", torch.float64), 1e-9)

    def test_gradients_as_of_one(self):
        for name in ("accumulated", "unequal"):
            with self.subTest(name):
                self.close(self.result(name), getattr(Work(), name)(), 1e-5)
                self.close(self.result(name, 1), self.result(name), 0)
        with self.subTest("joined"):
            self.close(self.result("joined"), Work().joined(), 1e-5)

    def test_saved_by_two_loaded_by_one(self):
        for kind, expected in self.result("saved").items():
            with self.subTest(kind):
                model = Chain()
                model.load_state_dict(torch.load(f"{self.folder.name}/{kind}.pt"))
                self.close(model(batch_of(5)).flatten().tolist(), expected, 1e-4)

    def test_what_is_refused(self):
        words = [self.result("refused", rank) for rank in range(RANKS)]
        for rank in range(RANKS):
            found = words[rank]
            self.assertRegex(
                found["shapes"],
                r"ValueError: .*rank 1: parameter 1.weight_hh_l0 is torch.float32 \[15, 5\], "
                r"but on rank 0 torch.float32 \[12, 4\]",
            )
            self.assertRegex(
                found["equations"], "rank 1: module cell has other equations or options than on rank 0"
            )
            self.assertRegex(found["versions"], "rank 1: rnnc 0.0.1, but rank 0 has 0.0.0")
            self.assertRegex(
                found["names"], r"rank 1: parameter 3.weight is torch.float32 \[2, 4\], .* rank 0 missing"
            )
            self.assertRegex(
                found["no_gradient"],
                rf"RuntimeError: rank {rank}: the last .* no gradient to parameter unused.*: let the loss",
            )
            if GPUS:
                self.assertRegex(found["places"], "ranks 0 and 1 use the same GPU of .*rank_device")
                self.assertRegex(
                    found["places"], "rank 1: parameter 0.weight is on cuda:0, expected cuda:1"
                )
                self.assertRegex(
                    found["places"], "rank 0: parameter 1.weight is on cpu, expected cuda:0"
                )

    @unittest.skipUnless(GPUS, "needs two GPUs")
    def test_beside_nccl(self):
        self.assertTrue(self.result("sharing"))
        self.assertLessEqual(self.result("in_constant_memory"), 0)
        with tempfile.TemporaryDirectory() as folder:
            found = results_of(["sharing", "ddp"], folder, CUDA_DEVICE_MAX_CONNECTIONS="1")
            self.assertIs(found[0]["sharing"], True)
            self.assertEqual(found[0]["ddp"], self.result("ddp"))


RANK_THAT_DIES = """
import os, sys
import rnnc.torch, torch
device = rnnc.torch.rank_device()
torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
model = rnnc.torch.data_parallel(rnnc.torch.GRU(8, 8).to(device))
for step in range(1000):
    if step == 5 and torch.distributed.get_rank() == 1:
        os._exit(3)
    model(torch.randn(4, 2, 8, device=device))[0].sum().backward()
print("all steps were done")
"""


def torchrun(arguments, ranks=RANKS, **environment):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={ranks}", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)


class Torchrun(unittest.TestCase):
    def test_a_rank_dies(self):
        """The others end, with an error."""
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "train.py")
            script.write_text(RANK_THAT_DIES)
            start = time.monotonic()
            result = torchrun([script])
        self.assertNotEqual(result.returncode, 0, result.stdout)
        self.assertNotIn("all steps were done", result.stdout)
        self.assertRegex(result.stderr, r"exitcode *: 3")
        self.assertLess(time.monotonic() - start, 200)

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_more_ranks_than_gpus(self):
        count = torch.cuda.device_count() + 1
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "start.py")
            script.write_text("import rnnc.torch\nrnnc.torch.rank_device()\n")
            result = torchrun([script], ranks=count)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, rf"rank {count - 1} has no GPU: {count} ranks were started on")

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_each_rank_sees_its_gpu_alone(self):
        program = "import rnnc.torch; print(rnnc.torch.rank_device())"
        result = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=300,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "0", "LOCAL_RANK": "3"},
        )
        self.assertEqual(result.stdout, "cuda:0\n", result.stderr)

    def test_no_ranks(self):
        with self.assertRaisesRegex(RuntimeError, "there are no ranks: start with torchrun"):
            rnnc.torch.check_ranks(copy.deepcopy(Chain()))


if __name__ == "__main__":
    unittest.main()
