"""What models are trained with in PyTorch: autocast, checkpointing, copies, processes."""

import copy
import gc
import os
import pickle
import tempfile
import threading
import unittest
import warnings
from pathlib import Path

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

import rnnc.torch
import torch.distributed as distributed
from torch import nn
from torch.autograd import forward_ad
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

CELLS = Path(__file__).resolve().parents[2] / "examples/cells"


def lstm(dtype=torch.float32):
    torch.manual_seed(1)
    return rnnc.torch.Cell(CELLS / "lstm.rnn", dtype=dtype, I=3, H=4)


def worst(a, b):
    return float((a - b).detach().abs().max())


class Training(unittest.TestCase):
    def test_autocast(self):
        """Float32 inside, autocast's type outside."""
        cell, x = lstm(), torch.randn(4, 2, 3)
        expected = cell(x)
        with torch.autocast("cpu"):
            y, states = cell(x)
            again, _ = cell(x, states=states)
            of_halves, _ = cell(x.bfloat16())
            loss = y.float().sum()
        self.assertEqual((y.dtype, states.h.dtype), (torch.bfloat16, torch.float32))
        self.assertTrue(torch.equal(y, expected[0].bfloat16()))
        self.assertTrue(torch.equal(states.c, expected[1].c))
        self.assertLessEqual(worst(of_halves.float(), y.float()), 0.02)
        self.assertEqual(again.dtype, torch.bfloat16)
        loss.backward()
        self.assertEqual(cell.W_i.grad.dtype, torch.float32)
        module = rnnc.torch.LSTM(3, 4)
        with torch.autocast("cpu"):
            self.assertEqual({t.dtype for t in module(x)[1]}, {torch.bfloat16})

    def test_halves_on_the_cpu(self):
        cell = lstm().bfloat16()
        with self.assertRaisesRegex(ValueError, r"torch.bfloat16 is for GPUs: .*torch.autocast"):
            cell(torch.zeros(4, 2, 3, dtype=torch.bfloat16))
        with torch.autocast("cpu"):
            cell(torch.zeros(4, 2, 3, dtype=torch.bfloat16))

    def test_checkpointing(self):
        cell, x = lstm(), torch.randn(4, 2, 3, requires_grad=True)
        expected = torch.autograd.grad(cell(x)[0].sum(), [x, *cell.parameters()])
        for reentrant in (True, False):
            y = checkpoint(lambda x: cell(x)[0], x, use_reentrant=reentrant)
            cell.zero_grad()
            x.grad = None
            y.sum().backward()
            found = [x.grad, *(p.grad for p in cell.parameters())]
            self.assertTrue(all(map(torch.equal, found, expected)))

    def test_saved_tensors_move(self):
        """As torch.autograd.graph.save_on_cpu has them: what backward gets is a copy."""
        cell, x = lstm(), torch.randn(4, 2, 3, requires_grad=True)
        expected = torch.autograd.grad(cell(x)[0].sum(), [x, *cell.parameters()])
        for _ in range(20):  # wherever copies may lie
            with torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone):
                y = cell(x)[0]
            found = torch.autograd.grad(y.sum(), [x, *cell.parameters()])
            self.assertTrue(all(map(torch.equal, found, expected)))

    def test_backward_twice(self):
        cell, x = lstm(), torch.randn(4, 2, 3, requires_grad=True)
        loss = cell(x)[0].sum()
        first = torch.autograd.grad(loss, x, retain_graph=True)[0]
        self.assertTrue(torch.equal(first, torch.autograd.grad(loss, x)[0]))

    def test_second_derivatives_and_transforms(self):
        cell = lstm(torch.float64)
        x = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
        ones = torch.ones_like(x)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rnnc.torch.calls._warned.clear()
            self.assertTrue(torch.autograd.gradgradcheck(lambda x: cell(x)[0], (x,)))
            both = torch.func.vmap(lambda x: cell(x)[0])(torch.stack([x, 2 * x]))
            self.assertLessEqual(worst(both[1], cell(2 * x)[0]), 1e-12)
            tangent = torch.func.jvp(lambda x: cell(x)[0], (x,), (ones,))[1]
            with forward_ad.dual_level():
                y = cell(forward_ad.make_dual(x, ones))[0]
                self.assertLessEqual(worst(forward_ad.unpack_dual(y).tangent, tangent), 1e-12)
            params = dict(cell.named_parameters())
            call = torch.func.functional_call
            by = torch.func.grad(lambda p: call(cell, p, (x,))[0].sum())(params)
            for (name, _), grad in zip(
                params.items(), torch.autograd.grad(cell(x)[0].sum(), params.values())
            ):
                self.assertLessEqual(worst(by[name], grad), 1e-12)
            step = 1e-6
            numeric = (cell(x + step)[0] - cell(x - step)[0]) / (2 * step)
            self.assertLessEqual(worst(tangent, numeric), 1e-8)
        reasons = [w for w in caught if w.category is rnnc.torch.ReferenceWarning]
        self.assertEqual(len(reasons), 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error", rnnc.torch.ReferenceWarning)
            rnnc.torch.calls._warned.clear()
            with self.assertRaises(rnnc.torch.ReferenceWarning):
                torch.func.vmap(lambda x: cell(x)[0])(torch.stack([x, x]))

    def test_other_devices(self):
        rnnc.torch.calls._warned.add("a device of type meta")
        y, states = lstm().to("meta")(torch.zeros(4, 2, 3, device="meta"))
        self.assertEqual((y.device.type, y.shape, states.h.shape), ("meta", (4, 2, 4), (2, 4)))

    def test_made_on_meta(self):
        with torch.device("meta"):
            cell = rnnc.torch.Cell(CELLS / "lstm.rnn", I=3, H=4)
        cell = cell.to_empty(device="cpu")
        cell.reset_parameters()
        self.assertEqual(cell(torch.zeros(4, 2, 3))[0].shape, (4, 2, 4))

    def test_nothing_to_do(self):
        cell = lstm()
        self.assertEqual(cell(torch.zeros(0, 2, 3))[0].shape, (0, 2, 4))
        self.assertEqual(cell(torch.zeros(4, 0, 3))[0].shape, (4, 0, 4))

    def test_parametrized(self):
        cell = lstm()
        x = torch.randn(4, 2, 3)
        other = parametrizations.weight_norm(copy.deepcopy(cell), "R_i")
        y = other(x)[0]
        self.assertLessEqual(worst(y, cell(x)[0]), 1e-6)
        y.sum().backward()
        self.assertIsNotNone(other.parametrizations.R_i.original1.grad)

    def test_threads(self):
        cell = lstm()
        inputs = {steps: torch.randn(steps, 2, 3) for steps in range(1, 20)}
        expected = {steps: cell(x)[0].detach() for steps, x in inputs.items()}
        wrong = []

        def work():
            for steps, x in inputs.items():
                y = cell(x)[0]
                torch.autograd.grad(y.sum(), cell.W_i)
                if not torch.equal(y, expected[steps]):
                    wrong.append(steps)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_fork(self):
        cell, x = lstm(), torch.randn(4, 2, 3)
        program = rnnc.compile(CELLS / "lstm.rnn", I=3, H=4)
        expected = cell(x)[0]
        child = os.fork()
        if child == 0:
            status = 1
            try:
                torch.set_num_threads(1)
                if torch.equal(cell(x)[0], expected):
                    status = 0
                program.prepare(batch=2, steps=3)
                del program
                gc.collect()
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue(torch.equal(cell(x)[0], expected))

    def test_workers_get_copies(self):
        """Pickled, as DataLoader and torch.save have them."""
        cell = lstm()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(cell, f"{folder}/cell.pt")
            other = torch.load(f"{folder}/cell.pt", weights_only=False)
        x = torch.randn(4, 2, 3)
        self.assertTrue(torch.equal(other(x)[0], cell(x)[0]))
        module = pickle.loads(pickle.dumps(rnnc.torch.GRU(3, 4, 2)))
        self.assertEqual(module(x)[0].shape, (4, 2, 4))

    def test_strides(self):
        cell = lstm()
        x = torch.randn(2, 8, 6)
        view = x.transpose(0, 1)[::2, :, ::2]
        self.assertTrue(torch.equal(cell(view)[0], cell(view.contiguous())[0]))
        square = rnnc.torch.Cell(CELLS / "lstm.rnn", I=4, H=4)
        x = torch.randn(3, 2, 4)
        square(x)
        square(x)
        with torch.no_grad():
            square.R_i.data = square.R_i.data.t()  # where it was, but with other strides
        expected = copy.deepcopy(square)
        expected.R_i = nn.Parameter(square.R_i.detach().contiguous())
        self.assertTrue(torch.equal(square(x)[0], expected(x)[0]))

    def test_frozen(self):
        cell, x = lstm(), torch.randn(4, 2, 3)
        with torch.no_grad(), rnnc.torch.frozen(nn.Sequential(cell)):
            first = cell(x)[0]
            self.assertTrue(torch.equal(cell(x)[0], first))
            cell.W_i.mul_(2)
            changed = cell(x)[0]
            self.assertFalse(torch.equal(changed, first))
            cell.load_state_dict({k: v / 2 for k, v in cell.state_dict().items()})
            self.assertFalse(torch.equal(cell(x)[0], changed))
        expected = copy.deepcopy(cell)(x)[0]
        self.assertTrue(torch.equal(cell(x)[0], expected))
        with rnnc.torch.frozen(cell), self.assertRaisesRegex(RuntimeError, "weights are frozen"):
            cell(x)
        cell(x)[0].sum().backward()

    def test_frozen_no_more(self):
        """What a shape's frozen calls have packed serves none of its later ones."""
        cell, x, other = lstm(), torch.randn(4, 2, 3), torch.randn(4, 1, 3)
        with torch.no_grad():
            with rnnc.torch.frozen(cell):
                for _ in range(2):
                    cell(x)
            cell(other)
            cell(x)
            cell.W_i.mul_(2)
            self.assertTrue(torch.equal(cell(x)[0], copy.deepcopy(cell)(x)[0]))

    def test_prepare(self):
        cell = lstm()
        cell.prepare(batch=2, steps=5, training=True, lengths=True)
        (compiled,) = cell.source.compiled.values()
        before = len(compiled.prepared)
        for steps in (5, 7):
            cell(torch.zeros(steps, 2, 3), lengths=torch.tensor([4, 1]))[0].sum().backward()
        self.assertEqual(len(compiled.prepared), before)
        rnnc.torch.LSTM(3, 4).prepare(2, 5, training=True, input_gradients=True)

    def test_many_shapes(self):
        """What was not used for longest is forgotten, and prepared again when it comes."""
        cell = lstm()
        rng = torch.Generator().manual_seed(1)
        first = torch.randn(3, 1, 3, requires_grad=True)
        kept = cell(first)[0]
        for _ in range(120):
            steps, batch = torch.randint(1, 40, (2,), generator=rng).tolist()
            x = torch.randn(steps, batch, 3, requires_grad=True)
            y = cell(x)[0]
            torch.autograd.grad(y.sum(), [x, cell.W_i])
        (compiled,) = cell.source.compiled.values()
        self.assertLessEqual(len(compiled.prepared), 16)
        self.assertLessEqual(len(compiled.programs), 16)
        again = cell(first)[0]
        for a, b in zip(
            torch.autograd.grad(kept.sum(), [first, cell.W_i]),
            torch.autograd.grad(again.sum(), [first, cell.W_i]),
        ):
            self.assertTrue(torch.equal(a, b))

    def test_other_tensors(self):
        cell = lstm()
        for x, words in (
            (torch.zeros(4, 2, 3).to_sparse(), "input x is no dense tensor"),
            (torch.zeros(4, 2, 3, dtype=torch.complex64), "is torch.complex64, expected torch.float32"),
            ([[1.0]], "1 inputs, the first a list, expected 1 tensors: x"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                cell(x)
        cell(torch.zeros(4, 2, 3))  # what has fitted is checked in another way
        with self.assertRaisesRegex(ValueError, "input x is no dense tensor"):
            cell(torch.zeros(4, 2, 3).to_sparse())
        with tempfile.TemporaryDirectory() as folder:
            distributed.init_process_group(
                "gloo", init_method=f"file://{folder}/one", rank=0, world_size=1
            )
            try:
                mesh = init_device_mesh("cpu", (1,))
                x = distribute_tensor(torch.zeros(4, 2, 3), mesh, [Replicate()])
                with self.assertRaisesRegex(ValueError, "is a DTensor, expected a plain tensor"):
                    cell(x)
            finally:
                distributed.destroy_process_group()

    def test_first_values(self):
        text = """cell Norm[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param R: [H, H]
  param U: [H, H] blocks 2
  param g, b: [H]
  h[t] = tanh(layernorm(W @ x[t] + R @ h[t-1] + U @ h[t-1], g, b))
}
"""
        cell = rnnc.torch.Cell(text, I=3, H=6, init={"b": 0.5})
        self.assertLessEqual(worst(cell.R @ cell.R.T, torch.eye(6)), 1e-5)
        halves = rnnc.torch.Cell(text, I=3, H=6, dtype=torch.bfloat16).R.float()
        self.assertLessEqual(worst(halves @ halves.T, torch.eye(6)), 0.02)
        for block in cell.U:
            self.assertLessEqual(worst(block @ block.T, torch.eye(3)), 1e-5)
        self.assertTrue(torch.equal(cell.g, torch.ones(6)))
        self.assertTrue(torch.equal(cell.b, torch.full((6,), 0.5)))
        self.assertLessEqual(float(cell.W.abs().max()), (6 / 9) ** 0.5)
        cell = rnnc.torch.Cell(text, I=3, H=6, init={"*": nn.init.zeros_, "g": 2})
        self.assertEqual((float(cell.R.abs().max()), float(cell.g[0])), (0, 2))


if __name__ == "__main__":
    unittest.main()
