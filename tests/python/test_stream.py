"""`Cell.stream`: steps one by one beside whole sequences."""

import multiprocessing
import unittest
from pathlib import Path

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

import rnnc.torch

CELLS = Path(__file__).resolve().parents[2] / "examples/cells"
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def cell_of(name, device, **dims):
    torch.manual_seed(1)
    cell = rnnc.torch.Cell(CELLS / f"{name}.rnn", device=device, **dims)
    for parameter in cell.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return cell


def steps_of(stream, x):
    return torch.stack([stream(step) for step in x])


class Streams(unittest.TestCase):
    def close(self, found, expected, limit=1e-5):
        self.assertEqual(found.shape, expected.shape)
        self.assertLessEqual(float((found - expected).abs().max()), limit)

    def setUp(self):
        self.no_grad = torch.no_grad()
        self.no_grad.__enter__()
        self.addCleanup(self.no_grad.__exit__, None, None, None)

    def test_steps_are_those_of_a_sequence(self):
        """Also of cells whose states are histories, or begin otherwise than at zero."""
        for device in DEVICES:
            for name in ("lstm", "gru", "gru_reset_before", "layernorm_lstm", "mingru", "qrnn"):
                for batch in (1, 3):
                    with self.subTest(device=device, name=name, batch=batch):
                        cell = cell_of(name, device, I=8, H=16)
                        stream = cell.stream(batch)
                        x = torch.randn(7, batch, 8, device=device)
                        self.assertIsNone(stream.states)
                        y, states = cell(x)
                        self.close(steps_of(stream, x), y)
                        for found, expected in zip(stream.states, states):
                            self.close(found, expected)
                        self.assertEqual(type(stream.states), type(states))

    def test_states_are_set_and_reset(self):
        for device in DEVICES:
            cell = cell_of("lstm", device, I=8, H=16)
            stream = cell.stream(2)
            x = torch.randn(6, 2, 8, device=device)
            whole, _ = cell(x)
            for length in (1, 2, 3):  # either set of states is the current one
                stream.reset()
                steps_of(stream, x[:length])
                kept = stream.states
                steps_of(stream, x[:2])
                stream.states = kept
                self.close(steps_of(stream, x[length:]), whole[length:])
            stream.reset()
            self.close(steps_of(stream, x), whole)
            with self.assertRaisesRegex(ValueError, r"the states are h \[2, 16\], c \[2, 16\]"):
                stream.states = [kept.h]

    def test_results_stay(self):
        stream = cell_of("lstm", "cpu", I=8, H=16).stream()
        first = stream(torch.ones(1, 8))
        copy = first.clone()
        stream(torch.ones(1, 8))
        self.assertTrue(torch.equal(first, copy))

    def test_changed_weights_are_seen(self):
        for device in DEVICES:
            cell = cell_of("lstm", device, I=8, H=16)
            stream, x = cell.stream(), torch.randn(2, 1, 8, device=device)
            steps_of(stream, x)
            cell.R_i.mul_(2)
            cell.W_o.normal_()
            stream.reset()
            self.close(steps_of(stream, x), cell(x)[0])

    def test_other_calls_are_apart(self):
        """Of more steps of as many sequences, with other weights, and another stream."""
        cell = cell_of("lstm", "cpu", I=8, H=16)
        first, second = cell.stream(), cell.stream()
        x = torch.randn(6, 1, 8)
        found = []
        for step in x:
            found.append(first(step))
            second(-step)
            cell(x)
        self.close(torch.stack(found), cell(x)[0])
        second.reset()
        cell.cpu().double()  # its memory is that of the cell as it was
        self.assertEqual(second(x[0]).dtype, torch.float32)

    def test_inputs_that_are_not_as_they_lie(self):
        cell = cell_of("lstm", "cpu", I=8, H=16)
        x = torch.randn(8, 3)
        self.close(cell.stream(3)(x.T), cell(x.T.unsqueeze(0))[0][0])
        parameter = torch.nn.Parameter(x.T.contiguous())
        self.close(cell.stream(3)(parameter), cell(x.T.unsqueeze(0))[0][0])

    def test_what_does_not_fit(self):
        stream = cell_of("lstm", "cpu", I=8, H=16).stream(2)
        message = r"a step of this Stream takes tensors of shape \[2, 8\], not \[1, 2, 8\]"
        with self.assertRaisesRegex(ValueError, message):
            stream(torch.randn(1, 2, 8))
        with self.assertRaisesRegex(ValueError, "input x is torch.float64, expected torch.float32"):
            stream(torch.randn(2, 8, dtype=torch.float64))
        with self.assertRaisesRegex(ValueError, r"not $"):
            stream([[1.0] * 8] * 2)
        with self.assertRaisesRegex(ValueError, r"not \[2, 8\], \[2, 8\]"):
            stream(torch.randn(2, 8), torch.randn(2, 8))
        with torch.enable_grad(), self.assertRaisesRegex(RuntimeError, "a Stream has no gradients"):
            stream(torch.randn(2, 8, requires_grad=True))
        with self.assertRaisesRegex(rnnc.Error, "batch must be at least 1, got 0"):
            cell_of("lstm", "cpu", I=8, H=16).stream(0)

    @unittest.skipIf(not hasattr(__import__("os"), "fork"), "there are no forks")
    def test_forked(self):
        """A child goes on by itself."""
        cell = cell_of("lstm", "cpu", I=8, H=16)
        stream, x = cell.stream(), torch.randn(4, 1, 8)
        steps_of(stream, x[:2])
        expected = cell(x)[0][2:]
        context = multiprocessing.get_context("fork")
        results = context.SimpleQueue()

        def run():
            with torch.no_grad():
                results.put(steps_of(stream, x[2:]).tolist())

        child = context.Process(target=run)
        child.start()
        found = torch.tensor(results.get())
        child.join()
        self.close(found, expected)
        self.close(steps_of(stream, x[2:]), expected)

    @unittest.skipIf(not torch.cuda.is_available(), "no GPU")
    def test_on_streams_of_a_gpu(self):
        """One that is not the default; and none while a graph is captured."""
        cell = cell_of("lstm", "cuda", I=64, H=256)
        stream, x = cell.stream(), torch.randn(50, 1, 64, device="cuda")
        expected = cell(x)[0]
        side = torch.cuda.Stream()
        found = []
        for i, step in enumerate(x):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side if i % 3 == 0 else torch.cuda.current_stream()):
                found.append(stream(step))
            torch.cuda.current_stream().wait_stream(side)
        self.close(torch.stack(found), expected, 1e-4)
        graph = torch.cuda.CUDAGraph()
        with self.assertRaisesRegex(RuntimeError, "a CUDA graph is being captured"):
            with torch.cuda.graph(graph):
                stream(x[0])


if __name__ == "__main__":
    unittest.main()
