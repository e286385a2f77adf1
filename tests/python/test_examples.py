"""The examples in Python: they run, and learn."""

import contextlib
import importlib.util
import io
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

try:
    import safetensors
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"{error.name} is not installed") from error

from rnnc import _library

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
spec = importlib.util.spec_from_file_location("train", EXAMPLES / "train_charlm_torch/train.py")
train = importlib.util.module_from_spec(spec)
spec.loader.exec_module(train)


class StackedLSTM(torch.nn.Module):
    """What the example's network of LSTM is, by PyTorch's modules."""

    def __init__(self, characters, hidden, layers):
        super().__init__()
        self.lstm = torch.nn.LSTM(characters, hidden, layers)
        self.dense = torch.nn.Linear(hidden, characters)
        for layer in range(layers):  # the cell has one bias
            bias = getattr(self.lstm, f"bias_hh_l{layer}").requires_grad_(False)
            bias.zero_()

    def forward(self, x, states=None):
        one_hot = torch.nn.functional.one_hot(x, self.lstm.input_size).float()
        y, states = self.lstm(one_hot, states)
        return torch.log_softmax(self.dense(y), -1), states

    def load(self, cells):
        """The weights of rnnc's."""
        with torch.no_grad():
            self.dense.weight.copy_(cells["head.W"])
            self.dense.bias.copy_(cells["head.b"])
            for layer in range(self.lstm.num_layers):
                for ours, theirs in (("W", "weight_ih"), ("R", "weight_hh"), ("b", "bias_ih")):
                    gates = [cells[f"LSTM.{layer}.{ours}_{gate}"] for gate in "ifgo"]
                    getattr(self.lstm, f"{theirs}_l{layer}").copy_(torch.cat(gates))


class TrainCharlm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def run_example(self, *words):
        """The losses that it reports, and that of the held-out text."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            train.main(
                ["--out", str(self.out), "--hidden=24", "--batch=8", "--length=32", "--report=1", *words]
            )
        numbers = re.findall(r"([\d.]+) bits per character", printed.getvalue())
        return [float(number) for number in numbers]

    def test_cells_learn(self):
        for cell in ("gru", "rhn", EXAMPLES / "cells/slstm.rnn"):
            *losses, held_out = self.run_example(f"--cell={cell}", "--steps=30", "--rate=0.02")
            self.assertEqual(len(losses), 30)
            self.assertLess(losses[-1], losses[0] - 1.5, cell)
            self.assertLess(held_out, losses[0] - 1, cell)

    def test_goes_on(self):
        whole = self.run_example("--steps=8")
        self.run_example("--steps=5")
        rest = self.run_example("--steps=8", "--resume")
        np.testing.assert_allclose(rest, whole[5:], rtol=0, atol=0.002)
        with self.assertRaises(SystemExit):
            self.run_example("--cell=gru", "--steps=9", "--resume")

    def test_two_processes_train_as_one(self):
        """And one goes on where two have ended."""
        whole = self.run_example("--steps=8")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        command += [train.__file__, f"--out={self.out}", "--hidden=24", "--batch=8", "--length=32"]
        result = subprocess.run(
            [*command, "--report=1", "--steps=5"], capture_output=True, text=True, timeout=300,
            env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        numbers = re.findall(r"([\d.]+) bits per character", result.stdout)
        losses = [float(number) for number in numbers[:-1]]
        rest = self.run_example("--steps=8", "--resume")
        np.testing.assert_allclose(losses + rest[:-1], whole[:-1], rtol=0, atol=0.002)

    def test_is_what_pytorch_trains(self):
        text = train.Text((EXAMPLES / "char_model/excerpt.txt").read_text(), batch=8, length=32)
        sizes = {"characters": len(text.vocabulary), "hidden": 24, "layers": 2}
        network = train.network_of((EXAMPLES / "cells/lstm.rnn").read_text(), **sizes)
        torch.manual_seed(1)
        ours = train.Trainer(train.rnnc.torch.Cell(network, "CharLM"), text, 0.01, train.Ranks())
        theirs = train.Trainer(StackedLSTM(**sizes), text, 0.01, train.Ranks())
        theirs.model.load(ours.model.state_dict())
        for _ in range(20):
            self.assertAlmostEqual(ours.step(), theirs.step(), delta=1e-3)
        self.assertAlmostEqual(ours.evaluate(), theirs.evaluate(), delta=1e-3)

    def test_the_command_runs_it(self):
        if not hasattr(_library.library, "rnnc_main"):
            self.skipTest("this librnnc is without the command")
        self.run_example("--steps=2")
        text = train.Text((EXAMPLES / "char_model/excerpt.txt").read_text(), batch=8, length=32)
        x = text.piece(0)[:-1]
        np.save(self.out / "x.npy", x.numpy())
        words = "run model.rnn --cell CharLM --weights weights.safetensors --input x=x.npy --output y=y.npy"
        subprocess.run([sys.executable, "-m", "rnnc", *words.split()], cwd=self.out, check=True)
        model = train.rnnc.torch.Cell((self.out / "model.rnn").read_text(), "CharLM")
        model.load_state_dict(safetensors.torch.load_file(self.out / "weights.safetensors"))
        with torch.no_grad():
            expected, _ = model(x)
        np.testing.assert_allclose(np.load(self.out / "y.npy"), expected.numpy(), atol=1e-5)


class Notebooks(unittest.TestCase):
    def test_run(self):
        """By Jupyter where it is installed, else the code alone."""
        notebooks = sorted(EXAMPLES.glob("*.ipynb"))
        self.assertNotEqual(notebooks, [])
        for notebook in notebooks:
            cells = json.loads(notebook.read_text())["cells"]
            code = [cell for cell in cells if cell["cell_type"] == "code"]
            for cell in code:
                self.assertEqual(cell["outputs"], [], f"{notebook}: outputs are not kept")
            if all(importlib.util.find_spec(name) for name in ("nbclient", "nbformat", "ipykernel")):
                import nbclient
                import nbformat

                nbclient.execute(nbformat.read(notebook, as_version=4))
                continue
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
                file = Path(folder) / "notebook.py"
                file.write_text("\n".join("".join(cell["source"]) + "\n" for cell in code))
                runpy.run_path(str(file))


if __name__ == "__main__":
    unittest.main()
