"""rnnc.torch under torch.compile and torch.export: whole graphs, the same bits as at once."""

import copy
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

# Of their own, so that what a test finds there is what it has left.
inductor_cache = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = inductor_cache.name

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

import rnnc.torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

CELLS = Path(__file__).resolve().parents[2] / "examples/cells"
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


class Model(nn.Module):
    def __init__(self, recurrent, size):
        super().__init__()
        self.first = nn.Linear(3, 5)
        self.recurrent = recurrent
        self.last = nn.Linear(size, 2)

    def forward(self, x):
        return self.last(torch.relu(self.recurrent(self.first(x))[0]))


def flat(results):
    if isinstance(results, torch.Tensor):
        return [results]
    return [tensor for part in results for tensor in flat(part)]


class Compile(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def same(self, module, *inputs, backend="aot_eager", limit=0.0, **more):
        """Results and gradients, at once and compiled."""
        torch.compiler.reset()
        compiled = torch.compile(module, backend=backend, fullgraph=True)
        found = []
        for run in (module, compiled):
            given = [x.clone().requires_grad_() for x in inputs]
            results = flat(run(*given, **more))
            module.zero_grad()
            sum((y * y).sum() for y in results).backward()
            gradients = [t.grad.clone() for t in (*given, *module.parameters())]
            with torch.no_grad():
                inference = flat(run(*inputs, **more))
            found.append([*results, *gradients, *inference])
        for a, b in zip(*found):
            self.assertEqual(a.dtype, b.dtype)
            self.assertLessEqual(float((a - b).detach().abs().max()), limit)

    def test_cells(self):
        for device in DEVICES:
            x = torch.randn(4, 2, 3, device=device)
            for name in ("lstm", "gru", "qrnn", "indrnn"):
                cell = rnnc.torch.Cell(CELLS / f"{name}.rnn", device=device, I=3, H=4)
                with self.subTest(cell=name, device=device):
                    self.same(cell, x)
            lengths = torch.tensor([4, 2], device=device)
            reset = torch.zeros(4, 2, device=device)
            reset[1, 0] = 1
            cell = rnnc.torch.Cell(CELLS / "lstm.rnn", device=device, I=3, H=4)
            states = (torch.randn(2, 4, device=device), torch.randn(2, 4, device=device))
            self.same(cell, x, states=states, lengths=lengths, reset=reset)
            self.same(cell, x, states={"c": states[1]})

    def test_several_inputs_and_outputs(self):
        text = """cell Two[I, H](x: [I], k: [H]) -> (y, z) {
  state h: [H]
  param W: [H, I]
  h[t] = tanh(W @ x[t] + h[t-1]) * k[t]
  y = h[t] + h[t-2]
  z = sum(h[t])
}
"""
        cell = rnnc.torch.Cell(text, I=3, H=4, batch_first=True)
        self.same(cell, torch.randn(2, 5, 3), torch.randn(2, 5, 4))

    def test_layers(self):
        for kind in (rnnc.torch.LSTM, rnnc.torch.GRU, rnnc.torch.RNN):
            module = kind(3, 4, num_layers=2, bidirectional=True, batch_first=True)
            self.same(module, torch.randn(2, 5, 3))

    def test_lists(self):
        cell, x = rnnc.torch.Cell(CELLS / "lstm.rnn", I=3, H=4), torch.randn(4, 2, 3)
        self.same(cell, x, lengths=[4, 2], reset=[[0, 0], [1, 0], [0, 0], [0, 1]])

    def test_packed_sequences(self):
        """Without what is kept of packings at once."""
        module = rnnc.torch.GRU(3, 4, bidirectional=True)
        compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
        for lengths in ([2, 5, 3], [4, 4, 4], [6]):
            x = torch.randn(max(lengths), len(lengths), 3)
            packed = pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
            found = []
            for run in (module, compiled):
                data = packed.data.clone().requires_grad_()
                y, h = run(packed._replace(data=data))
                (y.data.square().sum() + h.square().sum()).backward()
                found.append([y.data, h, data.grad])
            self.assertTrue(all(map(torch.equal, *found)))

    def test_autocast(self):
        cell = rnnc.torch.Cell(CELLS / "lstm.rnn", I=3, H=4)
        x = torch.randn(4, 2, 3)
        with torch.autocast("cpu"):
            compiled = torch.compile(cell, backend="aot_eager", fullgraph=True)
            self.assertEqual(compiled(x)[0].dtype, torch.bfloat16)
            self.assertTrue(torch.equal(compiled(x)[0], cell(x)[0]))

    def test_inductor(self):
        """And numbers of steps and sequences that one graph serves."""
        model = Model(rnnc.torch.Cell(CELLS / "gru.rnn", I=5, H=4), 4)
        self.same(model, torch.randn(4, 2, 3), backend="inductor", limit=1e-5)
        compiled = torch.compile(model, fullgraph=True, dynamic=True)
        for steps, batch in ((5, 2), (7, 3), (9, 4)):
            x = torch.randn(steps, batch, 3, requires_grad=True)
            y = compiled(x)
            self.assertLessEqual(float((y - model(x)).detach().abs().max()), 1e-5)
            y.sum().backward()
        before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        compiled(torch.randn(31, 17, 3, requires_grad=True))
        self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], before)

    def test_another_build(self):
        """What Inductor keeps on disk, with sizes of reserves in it, is for the build that it is of."""
        module = rnnc.torch.Cell(CELLS / "elman.rnn", I=3, H=5)
        counts = torch._dynamo.utils.counters["aot_autograd"]
        x = torch.randn(4, 2, 3)

        def is_found(module):
            torch.compiler.reset()
            hits, misses = counts["autograd_cache_hit"], counts["autograd_cache_miss"]
            torch.compile(module, fullgraph=True)(x)[0].sum().backward()
            found = counts["autograd_cache_hit"] - hits, counts["autograd_cache_miss"] - misses
            self.assertIn(found, ((1, 0), (0, 1)))
            return found == (1, 0)

        self.assertFalse(is_found(module))
        self.assertTrue(is_found(copy.deepcopy(module)))
        own = module.source.text
        with mock.patch("rnnc._library.build", lambda: "of other sources"):
            other = copy.deepcopy(module)
        self.assertNotEqual(other.source.text, own)
        self.assertFalse(is_found(other))
        # A file of another build's is read as this one's.
        self.assertEqual(copy.deepcopy(other).source.text, own)

    def test_export(self):
        """Any number of steps; in another process, which has no module."""
        model = Model(rnnc.torch.Cell(CELLS / "lstm.rnn", I=5, H=4), 4).eval()
        x = torch.randn(4, 2, 3)
        shapes = ({0: torch.export.Dim("T", min=2, max=500)},)
        exported = torch.export.export(model, (x,), dynamic_shapes=shapes)
        with tempfile.TemporaryDirectory() as folder:
            torch.export.save(exported, f"{folder}/model.pt2")
            longer = torch.randn(9, 2, 3)
            torch.save((longer, model(longer)), f"{folder}/expected.pt")
            program = (
                "import sys, torch, rnnc.torch\n"
                "model = torch.export.load(sys.argv[1] + '/model.pt2').module()\n"
                "x, expected = torch.load(sys.argv[1] + '/expected.pt')\n"
                "assert torch.equal(model(x), expected)\n"
            )
            subprocess.run([sys.executable, "-c", program, folder], check=True)

    def test_compiled_ahead(self):
        """A package of AOTInductor's, in another process."""
        model = Model(rnnc.torch.GRU(5, 4), 4).eval()
        x = torch.randn(4, 2, 3)
        with torch.no_grad():
            exported = torch.export.export(model, (x,))
            expected = model(x)
        with tempfile.TemporaryDirectory() as folder:
            torch._inductor.aoti_compile_and_package(exported, package_path=f"{folder}/model.pt2")
            torch.save((x, expected), f"{folder}/expected.pt")
            program = (
                "import sys, torch, rnnc.torch\n"
                "model = torch._inductor.aoti_load_package(sys.argv[1] + '/model.pt2')\n"
                "x, expected = torch.load(sys.argv[1] + '/expected.pt')\n"
                "assert torch.allclose(model(x), expected, atol=1e-6)\n"
            )
            subprocess.run([sys.executable, "-c", program, folder], check=True)

    def test_operators(self):
        """PyTorch's own checks of schema, fake kernels and gradients."""
        cell = rnnc.torch.Cell(CELLS / "lstm.rnn", I=3, H=4)
        params = [p.detach().clone().requires_grad_() for p in cell.params()]
        x = torch.randn(4, 2, 3, requires_grad=True)
        h = torch.zeros(2, 4, requires_grad=True)
        lengths, reset = torch.tensor([4, 2]), torch.zeros(4, 2)
        all_wanted = "1" * 14 + "0"
        calls = [
            ([x, *params, h], "10", lengths, reset, all_wanted),
            ([x, *params], "00", None, None, "1" * 13 + "00"),
            ([x.detach(), *(p.detach() for p in params)], "00", None, None, ""),
        ]
        torch.use_deterministic_algorithms(True)  # fills the reserve, whose gaps would differ
        try:
            for call in calls:
                torch.library.opcheck(torch.ops.rnnc.forward.default, (cell.source.text, *call))
        finally:
            torch.use_deterministic_algorithms(False)

    def test_operator_refuses_a_short_reserve(self):
        cell = rnnc.torch.Cell("lstm", I=3, H=4)
        tensors = [torch.randn(4, 2, 3), *(p.detach() for p in cell.params())]
        call = tensors, "00", None, None, "1" * len(tensors) + "00"
        *results, reserve = torch.ops.rnnc.forward(cell.source.text, *call)
        gradients = [torch.ones_like(result) for result in results]
        with self.assertRaisesRegex(rnnc.Error, "reserve has 8 bytes"):
            torch.ops.rnnc.backward(cell.source.text, *call, results[:1], reserve[:8], gradients)


if __name__ == "__main__":
    unittest.main()
