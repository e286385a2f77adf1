"""Calls with tensors like those of earlier ones: checked once, converted each time, to the same end."""

import unittest
from pathlib import Path
from unittest import mock

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

import rnnc.torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

CELLS = Path(__file__).resolve().parents[2] / "examples/cells"
SCALAR = """cell Total[I](x: [I]) -> y {
  state s: []
  param w: [I]
  s[t] = s[t-1] + sum(w * x[t])
  y = s[t]
}
"""
LOOKUP = """cell Lookup[V, H](x: int []) -> h {
  state h: [H]
  param E: [V, H]
  h[t] = tanh(E[x[t]] + h[t-1])
}
"""


def lstm(**more):
    torch.manual_seed(1)
    return rnnc.torch.Cell(CELLS / "lstm.rnn", I=3, H=4, **more)


def worst(a, b):
    return float((a - b).detach().abs().max())


def counted():
    """Checks of calls while it lasts."""
    return mock.patch("rnnc.torch.calls.checked", wraps=rnnc.torch.calls.checked)


class KnownCalls(unittest.TestCase):
    def test_known_tensors(self):
        """What fits is not checked again; without PyTorch's guards it is, to the same end."""
        x = torch.randn(4, 2, 3)
        results = []
        for guards in (rnnc.torch.programs.Guards, None):
            cell = lstm()
            with (
                mock.patch("rnnc.torch.programs.Guards", guards),
                mock.patch("rnnc.torch.calls.checked", wraps=rnnc.torch.calls.checked) as checked,
            ):
                results += [cell(x)[0] for _ in range(3)]
                self.assertEqual(checked.call_count, 3 if guards is None else 1)
                for other in (x.double(), x[:, :, :2]):
                    with self.assertRaises(ValueError):
                        cell(other)
                with torch.inference_mode():
                    results += [cell(x)[0] for _ in range(2)]
                    self.assertTrue(results[-1].is_inference())
                cell.W_i.requires_grad_(False)
                cell(x)[0].sum().backward()
                self.assertIsNone(cell.W_i.grad)
        self.assertTrue(all(torch.equal(y, results[0]) for y in results))

    def test_known_shapes_take_turns(self):
        cell = lstm()
        with mock.patch("rnnc.torch.calls.checked", wraps=rnnc.torch.calls.checked) as checked:
            for steps in (4, 2, 4, 2):
                self.assertEqual(cell(torch.zeros(steps, 2, 3))[0].shape[0], steps)
            self.assertEqual(checked.call_count, 2)
            _, states = cell(torch.zeros(4, 2, 3))
            cell(torch.zeros(4, 2, 3), states=[s.detach() for s in states])
            self.assertEqual(checked.call_count, 3)

    def test_known_tensors_elsewhere(self):
        """The same tensors run otherwise within modes, transforms of others, autocast and dual levels."""

        class Seen(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                seen.append(function.name())
                return function(*args, **kwargs or {})

        cell, x, seen = lstm(), torch.randn(4, 2, 3), []
        expected = cell(x)[0]
        with Seen():
            self.assertTrue(torch.equal(cell(x)[0], expected))
        self.assertIn("rnnc::forward", seen)
        cell(x)
        with mock.patch(
            "rnnc.torch.calls.by_reference", wraps=rnnc.torch.calls.by_reference
        ) as by_reference:
            found = torch.func.vmap(lambda scale: scale * cell(x)[0])(torch.ones(2))
            self.assertLessEqual(worst(found, expected.expand(2, 4, 2, 4)), 1e-6)
            self.assertEqual(by_reference.call_count, 1)
            with forward_ad.dual_level():
                self.assertLessEqual(worst(cell(x)[0], expected), 1e-6)
            self.assertEqual(by_reference.call_count, 2)
            for _ in range(2):
                with torch.autocast("cpu"):
                    self.assertTrue(torch.equal(cell(x)[0], expected.bfloat16()))
                self.assertTrue(torch.equal(cell(x)[0], expected))
            self.assertEqual(by_reference.call_count, 2)

    def test_whatever_a_call_is_given(self):
        """All that calls take is recognized, and gives what a module gives that has to check it."""
        x = torch.randn(4, 2, 3)
        state = {"states": [torch.randn(2, 4), torch.randn(2, 4)]}
        lengths = torch.tensor([4, 2])
        reset = torch.tensor([[0, 0], [0, 1], [1, 0], [0, 0]])
        calls = {
            "states": (x, state),
            "lengths": (x, {"lengths": lengths.int()}),
            "lengths, int64": (x, {"lengths": lengths}),
            "reset, int64": (x, {"reset": reset}),
            "reset, bool": (x, {"reset": reset.bool()}),
            "reset, uint8": (x, {"reset": reset.byte()}),
            "all": (x, {"lengths": lengths, "reset": reset.float() / 2, **state}),
            "strides": (x.transpose(0, 1).contiguous().transpose(0, 1), {}),
            "a strided state": (x, {"states": [s.T.contiguous().T for s in state["states"]]}),
        }
        cell, gradients = lstm(), {}
        for name, (data, more) in calls.items():
            with self.subTest(name), counted() as checked:
                for _ in range(3):
                    y, states = cell(data, **more)
                    (gradients[name],) = torch.autograd.grad(y.square().sum(), [cell.W_i])
                    with torch.no_grad():
                        self.assertTrue(torch.equal(cell(data, **more)[0], y))
                self.assertEqual(checked.call_count, 1)
                with mock.patch("rnnc.torch.programs.Guards", None):
                    other = lstm()
                    expected, finals = other(data, **more)
                    (gradient,) = torch.autograd.grad(expected.square().sum(), [other.W_i])
                for a, b in zip([y, gradients[name], *states], [expected, gradient, *finals]):
                    self.assertTrue(torch.equal(a, b))
        self.assertFalse(torch.equal(gradients["lengths"], gradients["reset, bool"]))
        for name in ("reset, bool", "reset, uint8"):
            self.assertTrue(torch.equal(gradients[name], gradients["reset, int64"]))

    def test_values_change(self):
        """Lengths and resets of other values are not those of the call before."""
        cell, x = lstm(), torch.randn(4, 2, 3)
        whole = rnnc.torch.reference(cell)
        for lengths in ([4, 4], [1, 3], [0, 4]):
            lengths = torch.tensor(lengths)
            expected = whole(x, lengths=lengths)[0]
            self.assertLessEqual(worst(cell(x, lengths=lengths)[0], expected), 1e-6)
        for at in range(4):
            reset = torch.zeros(4, 2)
            reset[at] = 0.5
            expected = whole(x, reset=reset)[0]
            self.assertLessEqual(worst(cell(x, reset=reset)[0], expected), 1e-6)
            self.assertLessEqual(worst(cell(x, reset=512 * reset.long())[0], whole(x)[0]), 1e-6)
            self.assertLessEqual(worst(cell(x, reset=(512 * reset).long())[0], expected), 1e-6)

    def test_batch_first(self):
        cell, x = lstm(batch_first=True), torch.randn(2, 4, 3, requires_grad=True)
        other = lstm()
        with counted() as checked:
            for _ in range(3):
                y, _ = cell(x)
            self.assertEqual(checked.call_count, 1)
        expected, _ = other(x.transpose(0, 1))
        self.assertTrue(torch.equal(y, expected.transpose(0, 1)))

    def test_integers(self):
        cell = rnnc.torch.Cell(LOOKUP, V=5, H=4)
        x = torch.tensor([[1], [4], [0]])
        with counted() as checked:
            for _ in range(3):
                y, _ = cell(x)
            self.assertEqual(checked.call_count, 1)
            self.assertTrue(torch.equal(cell(x.int())[0], y))
            with self.assertRaises(rnnc.Error):
                cell(torch.tensor([[1], [5], [0]]))

    def test_gradients_after_none(self):
        """What is first seen without gradients has them later, through what it is converted by, too."""
        cell = lstm()
        x = torch.randn(2, 4, 3, requires_grad=True)
        with torch.no_grad():
            cell(x.transpose(0, 1))
        cell(x.transpose(0, 1))[0].sum().backward()
        self.assertGreater(float(x.grad.abs().min()), 0)

    def test_forms(self):
        """A state, lengths and resets of the same number of tensors are not taken for one another."""
        cell, x = rnnc.torch.Cell(SCALAR, I=3, init={"w": 1}), torch.randn(2, 2, 3)
        some, rows = torch.tensor([2.0, 1.0]), torch.tensor([[0.0, 0.0], [1.0, 0.0]])
        expected = [
            cell(x)[0],
            cell(x, states=[some])[0],
            cell(x, lengths=some.int())[0],
            cell(x, reset=rows.byte())[0],
        ]
        self.assertEqual(len({tuple(y.flatten().tolist()) for y in expected}), 4)
        for _ in range(2):
            found = [cell(x), cell(x, states=[some]), cell(x, lengths=some.long()), cell(x, reset=rows)]
            for (y, _), y_expected in zip(found, expected):
                self.assertTrue(torch.equal(y, y_expected))

    def test_other_lengths_and_resets(self):
        """What has fitted does not hide what does not."""
        cell, x = lstm(), torch.randn(4, 2, 3)
        lengths, reset = torch.tensor([4, 2]), torch.zeros(4, 2)
        cell(x, lengths=lengths, reset=reset)
        for more, words in (
            ({"lengths": torch.tensor([4, 2, 1])}, r"lengths has shape \[3\], expected \[2\]"),
            ({"reset": reset[:3]}, r"reset has shape \[3, 2\], expected \[4, 2\]"),
            ({"reset": reset.T}, r"reset has shape \[2, 4\], expected \[4, 2\]"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                cell(x, **({"lengths": lengths, "reset": reset} | more))
        expected = cell(x, lengths=lengths)[0]
        self.assertTrue(torch.equal(cell(x, lengths=[4, 2])[0], expected))

    def test_masks_change_before_gradients(self):
        """Lengths and resets that are read again are held to be what they were."""
        cell, x = lstm(), torch.randn(4, 2, 3)
        for more in ({"lengths": torch.tensor([4, 2]).int()}, {"reset": torch.zeros(4, 2).byte()}):
            y, _ = cell(x, **more)
            for mask in more.values():
                mask.add_(1)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                y.sum().backward()

    def test_forgotten_shapes(self):
        """A known call whose shape is prepared no more is prepared again."""
        cell = lstm()
        with torch.no_grad():
            expected = [cell(torch.ones(2, batch, 3))[0] for batch in range(1, 40)]
            (compiled,) = cell.source.compiled.values()
            self.assertLessEqual(len(compiled.prepared), 16)
            with counted() as checked:
                for batch, y in enumerate(expected, 1):
                    self.assertTrue(torch.equal(cell(torch.ones(2, batch, 3))[0], y))
                self.assertEqual(checked.call_count, 0)
            self.assertLessEqual(len(compiled.prepared), 16)


if __name__ == "__main__":
    unittest.main()
