"""rnnc.torch beside PyTorch's own modules and autograd."""

import copy
import pickle
import re
import unittest
from pathlib import Path

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

import numpy as np
import rnnc.torch

CELLS = Path(__file__).resolve().parents[2] / "examples/cells"
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
torch.backends.cudnn.allow_tf32 = False


def lstm_pair(size, inputs, dtype=torch.float64, device="cpu", batch_first=False):
    """The shipped cell and nn.LSTM of equal weights."""
    cell = rnnc.torch.Cell(
        CELLS / "lstm.rnn", device=device, dtype=dtype, batch_first=batch_first, I=inputs, H=size
    )
    torch.manual_seed(1)
    module = torch.nn.LSTM(inputs, size, batch_first=batch_first).to(device, dtype)
    with torch.no_grad():
        for i, gate in enumerate("ifgo"):
            rows = slice(i * size, (i + 1) * size)
            cell.get_parameter(f"W_{gate}").copy_(module.weight_ih_l0[rows])
            cell.get_parameter(f"R_{gate}").copy_(module.weight_hh_l0[rows])
            cell.get_parameter(f"b_{gate}").copy_(module.bias_ih_l0[rows] + module.bias_hh_l0[rows])
    return cell, module


def worst(a, b):
    return float((a - b).detach().abs().max())


WORDS = """
cell Words[V, E, H](token: int [], x: [E]) -> h {
  state h: [H]
  param table: [V, E]
  param W: [H, E]
  h[t] = tanh(W @ (table[token[t]] * x[t]) + h[t-1] * (token[t] < 2) + step())
}
"""


class Integers(unittest.TestCase):
    def test_rows_of_a_table(self):
        for device in DEVICES:
            with self.subTest(device=device):
                self.compare(device, torch.int32)
                self.compare(device, torch.int64)

    def compare(self, device, kind):
        torch.manual_seed(2)
        dtype = torch.float64 if device == "cpu" else torch.float32
        cell = rnnc.torch.Cell(WORDS, device=device, dtype=dtype, V=5, E=3, H=4)
        token = torch.randint(0, 5, (7, 2), device=device).to(kind)
        x = torch.randn(7, 2, 3, device=device, dtype=dtype)
        h, _ = cell(token, x)
        state, expected = torch.zeros(2, 4, device=device, dtype=dtype), []
        for t in range(7):
            row = torch.nn.functional.embedding(token[t].long(), cell.table) * x[t]
            state = torch.tanh(row @ cell.W.T + state * (token[t] < 2)[:, None] + t)
            expected.append(state)
        expected = torch.stack(expected)
        self.assertLessEqual(worst(h, expected), 1e-5)
        by = [cell.table, cell.W]
        for ours, theirs in zip(
            torch.autograd.grad(h.sum(), by), torch.autograd.grad(expected.sum(), by)
        ):
            self.assertLessEqual(worst(ours, theirs), 1e-4)
        y, _ = rnnc.torch.reference(cell)(token, x)
        self.assertLessEqual(worst(y, expected), 1e-5)

    def test_integers_without_a_row(self):
        cell = rnnc.torch.Cell(WORDS, dtype=torch.float64, V=5, E=3, H=4)
        token, x = torch.full((2, 1), 5), torch.zeros(2, 1, 3, dtype=torch.float64)
        with self.assertRaisesRegex(Exception, r"token\[0, 0\] is 5, but `table` has rows 0 to 4"):
            cell(token, x)
        with self.assertRaisesRegex(ValueError, "input token is torch.float64, expected torch.int32"):
            cell(token.double(), x)


class Cells(unittest.TestCase):
    def compare_lstm(self, size, batch, steps, dtype, device, limit, given, batch_first=False):
        cell, module = lstm_pair(size, size + 2, dtype, device, batch_first)
        rows = (batch, steps) if batch_first else (steps, batch)
        x = torch.randn(*rows, size + 2, dtype=dtype, device=device)
        dy = torch.randn(*rows, size, dtype=dtype, device=device)
        h, c = torch.randn(2, batch, size, dtype=dtype, device=device)
        dc = torch.randn(batch, size, dtype=dtype, device=device)
        ours = [t.clone().requires_grad_() for t in (x, h, c)]
        theirs = [t.clone().requires_grad_() for t in (x, h, c)]
        y, states = cell(ours[0], states=tuple(ours[1:]) if given else None)
        expected, (last_h, last_c) = module(
            theirs[0], (theirs[1][None], theirs[2][None]) if given else None
        )
        self.assertLessEqual(worst(y, expected), limit)
        self.assertLessEqual(worst(states.h, last_h[0]), limit)
        self.assertLessEqual(worst(states.c, last_c[0]), limit)
        ((y * dy).sum() + (states.c * dc).sum()).backward()
        ((expected * dy).sum() + (last_c[0] * dc).sum()).backward()
        self.assertLessEqual(worst(ours[0].grad, theirs[0].grad), limit)
        if given:
            self.assertLessEqual(worst(ours[1].grad, theirs[1].grad), limit)
            self.assertLessEqual(worst(ours[2].grad, theirs[2].grad), limit)
        for i, gate in enumerate("ifgo"):
            part = slice(i * size, (i + 1) * size)
            for name, whole in (("W", module.weight_ih_l0), ("R", module.weight_hh_l0)):
                got = cell.get_parameter(f"{name}_{gate}").grad
                scale = max(1, float(whole.grad.abs().max()))
                self.assertLessEqual(worst(got, whole.grad[part]) / scale, limit)

    def test_lstm(self):
        for size, batch, steps in ((1, 1, 1), (3, 2, 5), (33, 3, 7), (8, 4, 100)):
            for given in (False, True):
                self.compare_lstm(size, batch, steps, torch.float64, "cpu", 1e-9, given)
        for device in DEVICES:
            self.compare_lstm(33, 3, 7, torch.float32, device, 1e-4, True, batch_first=True)

    def test_gradcheck(self):
        text = """cell Gate[I, H](x: [I], k: [H]) -> y {
  state h: [H]
  param W: [H, I]
  param R: [H, H]
  h[t] = tanh(W @ x[t] + R @ h[t-1]) * sigmoid(k[t]) + h[t-2]
  y = h[t] + h[t-1]
}
"""
        cell = rnnc.torch.Cell(text, dtype=torch.float64, I=2, H=3)
        x = torch.randn(4, 2, 2, dtype=torch.float64, requires_grad=True)
        k = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
        h = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
        lengths = torch.tensor([4, 2])
        reset = torch.zeros(4, 2)
        reset[1, 0] = 1

        def run(x, k, h, *_):
            y, states = cell(x, k, states={"h": h}, lengths=lengths, reset=reset)
            return (y, *states)

        self.assertTrue(torch.autograd.gradcheck(run, (x, k, h, *cell.parameters())))

    def test_training_as_nn_lstm(self):
        for dtype, limit in ((torch.float64, 1e-9), (torch.float32, 1e-4)):
            cell, module = lstm_pair(8, 5, dtype)
            losses = []
            for model in (cell, module):
                torch.manual_seed(2)
                x = torch.randn(6, 4, 5, dtype=dtype)
                target = torch.randn(6, 4, 8, dtype=dtype)
                bias_twice = [model.bias_hh_l0] if model is module else []
                for p in bias_twice:  # nn.LSTM has two biases; the cell has their sum
                    p.requires_grad_(False)
                optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
                losses.append([])
                for _ in range(50):
                    optimizer.zero_grad()
                    loss = ((model(x)[0] - target) ** 2).mean()
                    loss.backward()
                    optimizer.step()
                    losses[-1].append(loss.item())
            self.assertLess(losses[0][-1], losses[0][0])
            for ours, theirs in zip(*losses):
                self.assertAlmostEqual(ours, theirs, delta=limit)

    def test_lengths(self):
        cell, module = lstm_pair(6, 3)
        x = torch.randn(5, 3, 3, dtype=torch.float64)
        lengths = torch.tensor([5, 2, 3])
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        expected, _ = torch.nn.utils.rnn.pad_packed_sequence(module(packed)[0])
        self.assertLessEqual(worst(cell(x, lengths=lengths)[0], expected), 1e-12)

    def test_states_go_on(self):
        cell, _ = lstm_pair(6, 3)
        x = torch.randn(8, 2, 3, dtype=torch.float64)
        with torch.no_grad():
            whole, last = cell(x)
            _, states = cell(x[:3])
            second, end = cell(x[3:], states=states)
        self.assertLessEqual(worst(second, whole[3:]), 1e-14)
        self.assertLessEqual(worst(end.c, last.c), 1e-14)

    def test_calls_between_forward_and_backward(self):
        """Of more steps, or with other gradients: what the first has kept stays."""
        cell, module = lstm_pair(3, 2)
        x = torch.randn(4, 2, 2, dtype=torch.float64)
        y = cell(x)[0]
        more = torch.randn(40, 2, 2, dtype=torch.float64, requires_grad=True)
        other = cell(more)[0]
        cell.W_f.requires_grad_(False)
        cell(x)[0].sum().backward()
        cell.zero_grad()
        y.sum().backward()
        module(x)[0].sum().backward()
        self.assertLessEqual(worst(cell.W_i.grad, module.weight_ih_l0.grad[:3]), 1e-12)
        other.sum().backward()
        module(copy := more.detach().clone().requires_grad_())[0].sum().backward()
        self.assertLessEqual(worst(more.grad, copy.grad), 1e-12)

    def test_threads_of_openmp_give_the_same_bits(self):
        module = rnnc.torch.Cell("lstm", I=64, H=64)
        x = torch.randn(40, 16, 64)
        source, params = module.whole()
        of_torch = source.for_tensors(x, params).program
        self.assertTrue(of_torch.options["openmp"])
        own = rnnc.Program(of_torch.graph, of_torch.dims, **of_torch.options | {"openmp": False})
        arrays = {info.name: tensor.detach().numpy() for info, tensor in zip(of_torch.params, params)}
        inputs = {own.inputs[0].name: x.numpy()}
        for _ in range(20):
            results = [program.run(inputs, arrays).outputs for program in (of_torch, own)]
            for name, value in results[0].items():
                self.assertTrue((value == results[1][name]).all())

    def test_arguments(self):
        for arguments, words in (
            ({"I": 2, "H": 2.5}, "the dim H is 2.5, expected an integer"),
            ({"I": 2, "H": 3, "dtype": torch.int32}, "there are no arrays of torch.int32"),
            ({"I": 2, "H": 3, "init": {"b_x": 1}}, "init: no param is named 'b_x'; there are W_i, W_f"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                rnnc.torch.Cell("lstm", **arguments)
        cell = rnnc.torch.Cell("cell Sum[I](x: [I]) -> y { y = sum(x[t]) }", I=np.int64(2))
        self.assertEqual(cell(torch.ones(3, 1, 2))[0].tolist(), [[2], [2], [2]])

    def test_in_words(self):
        cell = rnnc.torch.Cell("lstm", I=2, H=3)
        self.assertEqual(repr(cell), "Cell((x: [2]) -> h: [3])")
        self.assertIn("Cell((token: [], x: [2]) -> h: [3])", repr(
            torch.nn.Sequential(rnnc.torch.Cell(WORDS, V=5, E=2, H=3))
        ))

    def test_lengths_out_of_range(self):
        """Count as the nearest that there are; of any integers, and of tensors of any layout."""
        cell, _ = lstm_pair(3, 2)
        x = torch.randn(4, 3, 2, dtype=torch.float64)
        expected = cell(x, lengths=[4, 0, 2])[0]
        for dtype in (torch.int64, torch.int32, torch.int16):
            lengths = torch.tensor([9, -3, 2], dtype=dtype)
            every_second = torch.stack([lengths, lengths], 1)[:, 0]
            for _ in range(2):
                self.assertTrue(torch.equal(cell(x, lengths=lengths)[0], expected))
                self.assertTrue(torch.equal(cell(x, lengths=every_second)[0], expected))
            y = rnnc.torch.reference(cell)(x, lengths=lengths)[0]
            self.assertLessEqual(worst(y, expected), 1e-12)
        beyond_int32 = torch.tensor([2**32 + 1, -(2**33), 2])
        for lengths in (beyond_int32, beyond_int32.tolist()):
            self.assertTrue(torch.equal(cell(x, lengths=lengths)[0], expected))

    def test_no_torchscript(self):
        for module in (rnnc.torch.LSTM(2, 3), rnnc.torch.Cell("lstm", I=2, H=3)):
            module(torch.zeros(4, 1, 2))
            with self.assertRaisesRegex(RuntimeError, "rnnc has no TorchScript: use torch.export"):
                torch.jit.trace(module, (torch.zeros(4, 1, 2),))

    def test_other_types(self):
        cell, module = lstm_pair(3, 2)
        cell(torch.randn(4, 2, 2, dtype=torch.float64))
        x = torch.randn(4, 2, 2)
        self.assertLessEqual(worst(cell.float()(x)[0], module.float()(x)[0]), 1e-6)

    def test_options_for_gpus(self):
        """On the CPU they change nothing."""
        model = torch.nn.Sequential(lstm_pair(3, 2)[0], rnnc.torch.GRU(4, 5))
        x = torch.randn(7, 3, 2, dtype=torch.float64)
        y, _ = model[0](x)
        self.assertIs(rnnc.torch.spare_multiprocessors(rnnc.torch.tune(model), 4), model)
        sources = [model[0].source, *model[1].sources.values()]
        self.assertTrue(all(s.tune and s.spare_multiprocessors == 4 for s in sources))
        self.assertTrue(torch.equal(model[0](x)[0], y))
        rnnc.torch.tune(model, False)
        self.assertFalse(model[0].source.tune)
        self.assertEqual(model[0].source.spare_multiprocessors, 4)
        with self.assertRaisesRegex(rnnc.Error, "tune is for a GPU"):
            rnnc.compile("lstm", I=3, H=4, tune=True)

    def test_copies(self):
        cell, _ = lstm_pair(3, 2)
        x = torch.randn(4, 2, 2, dtype=torch.float64)
        expected = cell(x)[0]
        for other in (copy.deepcopy(cell), pickle.loads(pickle.dumps(cell))):
            self.assertEqual(worst(other(x)[0], expected), 0)
            other(x)[0].sum().backward()
        self.assertIsNone(cell.W_i.grad)

    def test_names_are_those_of_the_text(self):
        cell = rnnc.torch.Cell(CELLS.parent / "networks/stacked_lstm.rnn", F=3, H=4, L=2)
        keys = list(cell.state_dict())
        self.assertEqual(keys, [p.name for p in cell.source.params])
        self.assertIn("LSTM.0.W_i", keys)

    def test_what_is_not_wanted_has_no_gradient(self):
        cell, _ = lstm_pair(3, 2)
        cell.R_i.requires_grad_(False)
        x = torch.randn(4, 2, 2, dtype=torch.float64)
        cell(x)[0].sum().backward()
        self.assertIsNone(cell.R_i.grad)
        self.assertIsNotNone(cell.W_i.grad)

    def test_gradients_are_tensors_of_their_own(self):
        cell, _ = lstm_pair(8, 2)
        cell.b_f.requires_grad_(False)
        cell(torch.randn(4, 2, 2, dtype=torch.float64))[0].sum().backward()
        gradients = [p.grad for p in cell.parameters() if p.requires_grad]
        expected = [gradient.clone() for gradient in gradients]
        gradients[0].zero_()
        for ours, theirs in zip(gradients[1:], expected[1:]):
            self.assertTrue(torch.equal(ours, theirs))
            self.assertTrue(ours.is_contiguous())
        memory = {gradient.untyped_storage().data_ptr() for gradient in gradients}
        self.assertEqual((len(memory), cell.b_f.grad), (11, None))

    def test_outputs_must_not_change_before_backward(self):
        cell, _ = lstm_pair(3, 2)
        y, _ = cell(torch.randn(4, 2, 2, dtype=torch.float64))
        loss = (y * y).sum()
        with torch.no_grad():
            y.zero_()
        with self.assertRaises(RuntimeError):
            loss.backward()

    def test_what_does_not_fit_is_listed(self):
        cell, _ = lstm_pair(3, 2)
        with self.assertRaises(ValueError) as raised:
            cell(torch.zeros(4, 2, 3), states={"z": 1}, lengths=torch.ones(3))
        text = str(raised.exception)
        self.assertIn("input x has shape [4, 2, 3], expected [4, 2, 2]", text)
        self.assertIn("input x is torch.float32, expected torch.float64", text)
        self.assertIn("there is no state 'z'", text)
        self.assertIn("lengths has shape [3], expected [2]", text)
        with self.assertRaisesRegex(
            ValueError, "input x is torch.float32, expected torch.float64; input x is on meta, expected cpu"
        ):
            cell(torch.zeros(4, 2, 2, device="meta"))
        with self.assertRaises(ValueError):
            cell()
        for shape in ([2], [4, 2], [4, 2, 2, 1]):
            words = re.escape(f"input x has shape {shape}, expected [T, B, 2]")
            with self.assertRaisesRegex(ValueError, words):
                cell(torch.zeros(shape, dtype=torch.float64))
        x = torch.zeros(4, 2, 2, dtype=torch.float64)
        for more, words in (
            ({"states": {"h": [1, 2]}}, "state h is a list, expected a tensor"),
            ({"lengths": torch.tensor([4.0, float("nan")])}, "lengths are torch.float32, expected integers"),
            ({"lengths": [True, False]}, "lengths are torch.bool, expected integers"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                cell(x, **more)
        cell.W_i = torch.nn.Parameter(torch.zeros(2, 2, dtype=torch.float64))
        with self.assertRaises(ValueError) as raised:
            cell(torch.zeros(4, 2, 2, dtype=torch.float64))
        self.assertEqual(str(raised.exception), "param W_i has shape [2, 2], expected [3, 2]")


class OfTorch(unittest.TestCase):
    def test_weights_of_modules(self):
        torch.manual_seed(1)
        layers = {"F": 3, "H": 4, "L": 2}
        for cell, dims, module, name in (
            ("lstm", {"I": 3, "H": 4}, torch.nn.LSTM(3, 4), "torch/lstm"),
            ("gru", {"I": 3, "H": 4}, torch.nn.GRU(3, 4), "torch/gru"),
            ("elman", {"I": 3, "H": 4}, torch.nn.RNN(3, 4), "torch/rnn"),
            ("stacked_lstm", layers, torch.nn.LSTM(3, 4, 2), "torch/stacked_lstm"),
            ("bidirectional_gru", layers, torch.nn.GRU(3, 4, 2, bidirectional=True),
             rnnc.WeightMap("torch/bidirectional_gru")),
            ("projected_lstm", {"I": 3, "H": 5, "P": 2}, torch.nn.LSTM(3, 5, proj_size=2),
             "torch/projected_lstm"),
        ):
            ours = rnnc.torch.Cell(cell, dtype=torch.float64, **dims)
            x = torch.randn(6, 2, 3, dtype=torch.float64)
            expected = module.double()(x)[0]
            self.assertIs(ours.from_torch(module, name), ours)
            self.assertLessEqual(worst(ours(x)[0], expected), 1e-12)
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.zero_()
            module.load_state_dict(ours.to_torch(name))
            self.assertLessEqual(worst(module(x)[0], expected), 1e-12)

    def test_what_is_no_module_of_theirs(self):
        cell = rnnc.torch.Cell("lstm", I=3, H=4)
        with self.assertRaisesRegex(rnnc.Error, "does not fit `LSTM`"):
            cell.from_torch(torch.nn.GRU(3, 4), "torch/gru")
        with self.assertRaisesRegex(ValueError, r"weight_ih_l0' has shape \(20, 3\), expected \(16, 3\)"):
            cell.from_torch(torch.nn.LSTM(3, 5), "torch/lstm")

    def test_explain(self):
        for module, name in (
            (rnnc.torch.Cell("lstm", I=3, H=4), "LSTM"),
            (rnnc.torch.LSTM(3, 4, 2), "Layers"),
        ):
            text = str(module.explain(batch=2, steps=5))
            self.assertTrue(text.startswith(f"{name}: f32, batch 2, 5 steps"), text)
            training = module.explain(2, 5, training=True, input_gradients=True)
            self.assertRegex(str(training)[:200], "gradients of .* params, 1 input;")


if __name__ == "__main__":
    unittest.main()
