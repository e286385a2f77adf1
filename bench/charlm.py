"""Tokens per second of the character model's training: rnnc's programs beside the same model in PyTorch.

    python3 bench/charlm.py --device cuda [--dtype bf16] [--program build/default/examples/train_charlm]

One model, characters to an LSTM to a dense layer to cross entropy, trained as examples/train_charlm and
examples/train_charlm_torch do: streams of the text side by side, truncated backpropagation through
time, the gradients' norm at most 1, AdamW. `C++` is the first example, as it stands; `rnnc.torch` the
loop of this file around `rnnc.torch.LSTM`, `nn.LSTM` the same loop around PyTorch's module. The
example reads the loss of each update, the loop one of `--report`. Medians of the reports after the first.
TF32 is off; bf16 is autocast in PyTorch. Run it from the repository's root; needs torch and rnnc's package
(PYTHONPATH=python).
"""

import argparse
import json
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

# The excerpt is short: so often, that the largest pieces are many.
TEXT = Path("examples/char_model/excerpt.txt").read_text(encoding="utf-8") * 20
MODEL = Path("examples/train_charlm/char_lm.rnn")
# (layers, streams, characters between updates, hidden units)
SHAPES = [(1, 16, 64, 128), (1, 64, 128, 512), (1, 64, 256, 1024), (2, 64, 256, 512)]


class Model(nn.Module):
    def __init__(self, module, characters, hidden, layers):
        super().__init__()
        self.recurrent = module(characters, hidden, layers)
        self.head = nn.Linear(hidden, characters)

    def forward(self, x, states):
        y, states = self.recurrent(x, states)
        return self.head(y), states


def streams(text, batch):
    """[pieces * length + 1, batch] numbers of characters, and how many kinds there are."""
    kinds = sorted(set(text))
    number = {kind: n for n, kind in enumerate(kinds)}
    numbers = torch.tensor([number[character] for character in text])
    end = len(numbers) * 9 // 10
    rows = (end - 1) // batch
    return numbers[: rows * batch].view(batch, rows).t().contiguous(), len(kinds)


def time_torch(arguments, module, shape):
    """Tokens per second of the loop around a module."""
    layers, batch, length, hidden = shape
    device = arguments.device
    rows, kinds = streams(TEXT, batch)
    rows = rows.to(device)
    pieces = (len(rows) - 1) // length
    torch.manual_seed(1)
    model = Model(module, kinds, hidden, layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=device == "cuda")
    states = None

    def update(index):
        nonlocal states
        piece = rows[index * length : (index + 1) * length + 1]
        with torch.autocast(device, torch.bfloat16, enabled=arguments.dtype == "bf16"):
            x = functional.one_hot(piece[:-1], kinds).float()
            y, last = model(x, states if index > 0 else None)
            loss = functional.cross_entropy(y.flatten(0, 1).float(), piece[1:].flatten())
        states = tuple(state.detach() for state in last)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    rates = []
    for _ in range(arguments.reports + 1):
        begin = time.perf_counter()
        for step in range(arguments.report):
            loss = update(step % pieces)
        loss.item()
        rates.append(arguments.report * batch * length / (time.perf_counter() - begin))
    return statistics.median(rates[1:])


def time_program(arguments, shape):
    """Tokens per second that examples/train_charlm reports."""
    layers, batch, length, hidden = shape
    steps = arguments.report * (arguments.reports + 1)
    command = [arguments.program, MODEL, "--device", arguments.device, "--dtype", arguments.dtype]
    command += ["--dim", f"L={layers}", "--dim", f"H={hidden}", "--batch", batch, "--length", length]
    command += ["--steps", steps, "--report", arguments.report]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write(TEXT)
        text.flush()
        command = list(map(str, [*command, "--text", text.name]))
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rates = [float(rate) for rate in re.findall(r"(\d+) tokens/s", output)]
    return statistics.median(rates[2:])  # The first is of one update, the second's run is warm-up.


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--program", type=Path, help="examples/train_charlm, built")
    parser.add_argument("--report", type=int, default=50, help="updates between two reports")
    parser.add_argument("--reports", type=int, default=4)
    parser.add_argument("--json", type=Path, help="where to write all figures")
    arguments = parser.parse_args()
    import rnnc.torch

    torch.backends.cudnn.allow_tf32 = False
    rows = []
    print("layers x streams x length x hidden: tokens per second of rnnc's, of nn.LSTM, ratio")
    for shape in SHAPES:
        rates = {}
        if arguments.program:
            rates["C++"] = time_program(arguments, shape)
        rates["rnnc.torch"] = time_torch(arguments, rnnc.torch.LSTM, shape)
        rates["nn.LSTM"] = time_torch(arguments, nn.LSTM, shape)
        rows.append({"shape": shape, "dtype": arguments.dtype, "tokens_per_second": rates})
        ours = ", ".join(f"{name} {rate:.0f} ({rate / rates['nn.LSTM']:.2f})" for name, rate in rates.items())
        print(f"{'x'.join(map(str, shape)):16} {ours}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
