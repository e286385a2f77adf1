"""rnnc.torch on a GPU: CUDA graphs, streams, autocast, memory."""

import copy
import gc
import tempfile
import threading
import unittest
from pathlib import Path

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

if not torch.cuda.is_available():
    raise unittest.SkipTest("there is no GPU")

import rnnc.torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import init_device_mesh

CELLS = Path(__file__).resolve().parents[2] / "examples/cells"


def lstm(size=32, **more):
    torch.manual_seed(1)
    return rnnc.torch.Cell(CELLS / "lstm.rnn", device="cuda", I=size, H=size, **more)


def worst(a, b):
    return float((a.float() - b.float()).detach().abs().max())


class Cuda(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def close(self, a, b, limit):
        """Relative to the greatest number."""
        scale = max(1e-6, float(b.detach().float().abs().max()))
        self.assertLessEqual(worst(a, b) / scale, limit)

    def test_as_on_the_cpu(self):
        cell = lstm()
        host = copy.deepcopy(cell).cpu()
        x = torch.randn(7, 3, 32)
        on_device, on_host = x.cuda().requires_grad_(), x.clone().requires_grad_()
        lengths = torch.tensor([7, 2, 4])
        y, states = cell(on_device, lengths=lengths.cuda())
        expected, finals = host(on_host, lengths=lengths)
        self.close(y.cpu(), expected, 1e-5)
        self.close(states.c.cpu(), finals.c, 1e-5)
        y.square().sum().backward()
        expected.square().sum().backward()
        self.close(on_device.grad.cpu(), on_host.grad, 1e-4)
        for ours, theirs in zip(cell.parameters(), host.parameters()):
            self.close(ours.grad.cpu(), theirs.grad, 1e-4)

    def test_tuned(self):
        """What the first call measures, forward and backward, another process's takes from the cache."""
        with tempfile.TemporaryDirectory() as cache:
            cell = lstm(256, cache=cache)
            x = torch.randn(20, 3, 256, device="cuda")
            expected, _ = cell(x)
            expected.square().sum().backward()
            gradients = [p.grad.clone() for p in cell.parameters()]
            cell.zero_grad()
            untuned = len(list(Path(cache).iterdir()))
            y, _ = rnnc.torch.tune(cell)(x)
            y.square().sum().backward()
            self.close(y, expected, 1e-5)
            for p, gradient in zip(cell.parameters(), gradients):
                self.close(p.grad, gradient, 1e-4)
            tuned = len(list(Path(cache).iterdir()))
            self.assertGreaterEqual(tuned, untuned + 2)  # what was found for each half, at least
            again = rnnc.torch.tune(lstm(256, cache=cache))
            again(x)[0].sum().backward()
            self.assertEqual(len(list(Path(cache).iterdir())), tuned)

    def test_layers_beside_torch(self):
        torch.backends.cudnn.allow_tf32 = False
        for kind, ours in ((nn.LSTM, rnnc.torch.LSTM), (nn.GRU, rnnc.torch.GRU)):
            theirs = kind(16, 32, 2, bidirectional=True).cuda()
            module = ours(16, 32, 2, bidirectional=True).cuda()
            module.load_state_dict(theirs.state_dict())
            x = torch.randn(9, 4, 16, device="cuda")
            y, expected = module(x)[0], theirs(x)[0]
            self.close(y, expected, 1e-5)
            y.sum().backward()
            expected.sum().backward()
            for a, b in zip(module.parameters(), theirs.parameters()):
                self.close(a.grad, b.grad, 1e-4)

    def test_autocast_with_a_scaler(self):
        for dtype in (torch.float16, torch.bfloat16):
            cell = lstm()
            x = torch.randn(8, 4, 32, device="cuda")
            target = torch.randn(8, 4, 32, device="cuda")
            scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
            optimizer = torch.optim.SGD(cell.parameters(), lr=0.5)
            losses = []
            for _ in range(10):
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype):
                    y, states = cell(x)
                    loss = ((y.float() - target) ** 2).mean()
                self.assertEqual((y.dtype, states.c.dtype), (dtype, torch.float32))
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                losses.append(loss.item())
            self.assertEqual(cell.W_i.grad.dtype, torch.float32)
            self.assertLess(losses[-1], losses[0])
            with torch.autocast("cuda", dtype):
                self.close(cell(x)[0], cell.cpu().float()(x.cpu())[0].cuda(), 0.02)

    def test_halves(self):
        cell = lstm(dtype=torch.bfloat16)
        x = torch.randn(5, 2, 32, device="cuda", dtype=torch.bfloat16)
        y, states = cell(x)
        y.sum().backward()
        self.assertEqual((y.dtype, states.h.dtype, cell.W_i.grad.dtype),
                         (torch.bfloat16, torch.float32, torch.bfloat16))
        mixed = lstm(dtype=torch.bfloat16, param_dtype=torch.float32)
        mixed.load_state_dict(cell.state_dict())
        self.close(mixed(x)[0], y, 0.02)

    def test_captured(self):
        """Inference and a training step, replayed with other values."""
        cell = lstm()
        x = torch.randn(6, 2, 32, device="cuda")
        cell.prepare(batch=2, steps=6)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            y, states = cell(x)
        for _ in range(2):
            x.normal_()
            with torch.no_grad():
                cell.W_i.normal_()
            graph.replay()
            expected = cell(x)
            self.assertTrue(torch.equal(y, expected[0]))
            self.assertTrue(torch.equal(states.c, expected[1].c))

    def test_captured_training(self):
        cell = lstm()
        static = torch.randn(6, 2, 32, device="cuda", requires_grad=True)
        graphed = torch.cuda.make_graphed_callables(cell, (static,))
        x = torch.randn(6, 2, 32, device="cuda", requires_grad=True)
        y = graphed(x)[0]
        y.square().sum().backward()
        ours = [p.grad.clone() for p in cell.parameters()]
        other = lstm()
        other.load_state_dict(cell.state_dict())
        other(x)[0].square().sum().backward()
        for a, b in zip(ours, other.parameters()):
            self.close(a, b.grad, 1e-6)

    def test_preparing_in_a_capture(self):
        cell = lstm()
        x = torch.randn(6, 2, 32, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with self.assertRaisesRegex(RuntimeError, "call the module's prepare"):
            with torch.no_grad(), torch.cuda.graph(graph):
                cell(x)
        torch.cuda.synchronize()
        with torch.no_grad():
            cell(x)

    def test_programs_end_during_a_capture(self):
        cell, other = lstm(), lstm(33)
        x = torch.randn(6, 2, 32, device="cuda")
        with torch.no_grad():
            cell(x)
            other(torch.randn(6, 2, 33, device="cuda"))
            expected = cell(x)[0]
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = cell(x)[0]
                del other
                gc.collect()
            params = list(cell.parameters())  # the graph reads them where they are
            del cell  # what the graph has captured stays
            gc.collect()
            lstm(34)(torch.randn(3, 2, 34, device="cuda"))
        graph.replay()
        self.assertTrue(torch.equal(y, expected))
        del params

    def test_more_steps_after_a_capture(self):
        cell = lstm()
        x = torch.randn(6, 2, 32, device="cuda")
        with torch.no_grad():
            expected = cell(x)[0]
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = cell(x)[0]
            for steps in (7, 50, 900):
                cell(torch.randn(steps, 2, 32, device="cuda"))
        y.zero_()
        graph.replay()
        self.assertTrue(torch.equal(y, expected))

    def test_reduce_overhead(self):
        cell = lstm()
        compiled = torch.compile(cell, mode="reduce-overhead", fullgraph=True)
        for _ in range(4):
            x = torch.randn(6, 2, 32, device="cuda", requires_grad=True)
            cell.zero_grad()  # what the graph of the step before has left is gone in the next
            torch.compiler.cudagraph_mark_step_begin()
            y = compiled(x)[0]
            expected = cell(x)[0]
            self.close(y, expected, 1e-6)
            y.sum().backward()
            gradients = torch.autograd.grad(expected.sum(), list(cell.parameters()))
            for parameter, gradient in zip(cell.parameters(), gradients):
                self.close(parameter.grad, gradient, 1e-6)

    def test_one_rank(self):
        """Over NCCL; several are in test_ranks.py."""

        def trained(wrap):
            model = wrap(nn.Sequential(nn.Linear(32, 32), lstm()).cuda())
            x = torch.randn(6, 2, 32, generator=torch.Generator().manual_seed(1)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(x)[0].square().mean()
                loss.backward()
                optimizer.step()
            return loss.detach()

        torch.manual_seed(1)
        expected = trained(lambda model: model)
        with tempfile.TemporaryDirectory() as folder:
            distributed.init_process_group(
                "nccl", init_method=f"file://{folder}/one", rank=0, world_size=1
            )
            try:
                mesh = init_device_mesh("cuda", (1,))
                wraps = [
                    rnnc.torch.data_parallel,
                    lambda model: torch.compile(rnnc.torch.data_parallel(model)),
                    lambda model: fully_shard(model, mesh=mesh),
                ]
                for wrap in wraps:
                    torch.manual_seed(1)
                    self.close(trained(wrap), expected, 1e-5)
            finally:
                torch.compiler.reset()
                gc.collect()
                distributed.destroy_process_group()

    def test_streams(self):
        """Calls on changing streams are in order, as far as the program's own memory goes."""
        cell = lstm(256)
        x = torch.randn(200, 8, 256, device="cuda")
        streams = [torch.cuda.Stream() for _ in range(3)]
        with torch.no_grad():
            expected = [cell(x * k)[0] for k in range(6)]
            inputs = [x * k for k in range(6)]
            torch.cuda.synchronize()
            results = []
            for k in range(6):
                with torch.cuda.stream(streams[k % 3]):
                    results.append(cell(inputs[k])[0])
            torch.cuda.synchronize()
        for a, b in zip(results, expected):
            self.assertTrue(torch.equal(a, b))

    def test_threads(self):
        cell = lstm()
        x = torch.randn(6, 2, 32, device="cuda")
        expected = cell(x)[0].detach()
        wrong = []

        def work():
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(20):
                    y = cell(x)[0]
                    torch.autograd.grad(y.sum(), cell.W_i)
                    if not torch.equal(y, expected):
                        wrong.append(1)

        torch.cuda.synchronize()
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_devices(self):
        """Another than the current one, where there are several."""
        last = torch.device("cuda", torch.cuda.device_count() - 1)
        cell, expected = lstm().to(last), lstm()
        x = torch.randn(6, 2, 32, device=last)
        y, on_first = cell(x)[0], expected(x.to("cuda:0"))[0]
        self.assertEqual(y.device, last)
        self.close(y.to("cuda:0"), on_first, 1e-6)
        y.sum().backward()
        on_first.sum().backward()
        self.close(cell.R_i.grad.to("cuda:0"), expected.R_i.grad, 1e-5)
        with self.assertRaisesRegex(ValueError, "input x is on cpu, expected cuda"):
            cell(x.cpu())

    def test_frozen(self):
        cell = lstm()
        x = torch.randn(1, 1, 32, device="cuda")
        with torch.no_grad(), rnnc.torch.frozen(cell):
            first = cell(x)[0]
            self.assertTrue(torch.equal(cell(x)[0], first))
            cell.W_g.mul_(3)
            self.assertFalse(torch.equal(cell(x)[0], first))

    def test_what_programs_keep_is_torchs(self):
        gc.collect()
        lstm()  # frees what is left of others
        before = torch.cuda.memory_allocated()
        cell = lstm(512, dtype=torch.bfloat16)
        with torch.no_grad():
            cell(torch.randn(4, 2, 512, device="cuda", dtype=torch.bfloat16))
        weights = sum(p.numel() for p in cell.parameters() if p.dim() > 1) * 2
        # The parameters, and the same again, packed.
        self.assertGreaterEqual(torch.cuda.memory_allocated() - before, 2 * weights)
        del cell
        gc.collect()
        lstm()
        self.assertLessEqual(torch.cuda.memory_allocated() - before, weights)

    def test_too_little_memory(self):
        cell = lstm(2048, dtype=torch.bfloat16)
        x = torch.randn(2, 1, 2048, device="cuda", dtype=torch.bfloat16)
        free, total = torch.cuda.mem_get_info()
        torch.cuda.empty_cache()
        allowed = torch.cuda.memory_reserved() + (8 << 20)
        torch.cuda.set_per_process_memory_fraction(allowed / total)
        try:
            with self.assertRaisesRegex(RuntimeError, "allocator has no .* GiB on cuda:0"):
                cell(x)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        self.assertEqual(cell(x)[0].shape, (2, 1, 2048))

    def test_many_shapes_in_constant_memory(self):
        cell = lstm()
        rng = torch.Generator().manual_seed(1)
        free = []
        for number in range(1000):
            steps, batch = torch.randint(1, 33, (2,), generator=rng).tolist()
            x = torch.randn(steps, batch, 32, device="cuda", requires_grad=number % 4 == 0)
            y = cell(x)[0]
            if number % 4 == 0:
                y.sum().backward()
            del x, y
            if number in (499, 999):
                gc.collect()
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
                free.append(torch.cuda.mem_get_info()[0])
        self.assertLessEqual(free[0] - free[1], 64 << 20)


if __name__ == "__main__":
    unittest.main()
