"""Makes training.json: the losses of 50 updates of character models, by PyTorch in float64.

    python3 tests/goldens/make_training.py      # seconds; needs torch and numpy

The models, the text and the updates are those of examples/train_charlm, smaller. Truncated
backpropagation: pieces of streams of the text, states carried on. PyTorch has the cells, the loss,
the gradients and AdamW; clip_grad_norm_ would add 1e-6 to the norm, so clipping is written out.
Params are deterministic.py's, under "training." and their names.
"""

import json
import math
from pathlib import Path

import torch
from torch.func import functional_call

import deterministic

FOLDER = Path(__file__).resolve().parent
TEXT = (FOLDER.parent.parent / "examples/char_model/excerpt.txt").read_bytes()
HIDDEN, BATCH, LENGTH, STEPS = 24, 4, 16, 50
OPTIONS = {"lr": 0.01, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.01}
CLIP = 0.4  # below the norm in some steps


def pieces():
    """[LENGTH, BATCH] characters, and those that follow them."""
    text = TEXT[: len(TEXT) - len(TEXT) // 10]
    numbers = {byte: i for i, byte in enumerate(sorted(set(TEXT)))}
    length = (len(text) - 1) // BATCH
    codes = torch.tensor([numbers[byte] for byte in text])
    for step in range(STEPS):
        first = torch.arange(LENGTH)[:, None] + step * LENGTH + torch.arange(BATCH) * length
        yield codes[first], codes[first + 1]


class LSTM:
    """torch.nn.LSTM from the params of examples/cells/lstm.rnn, whose gates have one bias."""

    gates, biases = "ifgo", ("b_i", "b_f", "b_g", "b_o")
    states = 2

    def __init__(self, inputs):
        self.module = torch.nn.LSTM(inputs, HIDDEN)

    def run(self, params, x, states):
        def stack(matrix):
            return torch.cat([params[f"{matrix}_{gate}"] for gate in self.gates])

        b_ih, b_hh = self.stacked_biases(params)
        weights = {"weight_ih_l0": stack("W"), "weight_hh_l0": stack("R")}
        weights |= {"bias_ih_l0": b_ih, "bias_hh_l0": b_hh}
        states = tuple(states) if len(states) > 1 else states[0]
        y, states = functional_call(self.module, weights, (x, states))
        return y, list(states) if isinstance(states, tuple) else [states]

    def stacked_biases(self, params):
        b = torch.cat([params[name] for name in self.biases])
        return b, torch.zeros_like(b)


class GRU(LSTM):
    """torch.nn.GRU from the params of examples/cells/gru.rnn."""

    gates, biases = "rzn", ("b_r", "b_z", "b_n", "b_hn")
    states = 1

    def __init__(self, inputs):
        self.module = torch.nn.GRU(inputs, HIDDEN)

    def stacked_biases(self, params):
        zeros = torch.zeros(2 * HIDDEN, dtype=torch.float64)
        inner = torch.cat([params[name] for name in self.biases[:3]])
        return inner, torch.cat([zeros, params["b_hn"]])


def make_params(cell, inputs):
    """Leaves by their names in the .rnn file, cell and head."""
    shapes = {f"W_{gate}": (HIDDEN, inputs) for gate in cell.gates}
    shapes |= {f"R_{gate}": (HIDDEN, HIDDEN) for gate in cell.gates}
    shapes |= {bias: (HIDDEN,) for bias in cell.biases}
    shapes = {f"{type(cell).__name__}.0.{name}": shape for name, shape in shapes.items()}
    shapes |= {"head.W": (inputs, HIDDEN), "head.b": (inputs,)}
    return {
        name: deterministic.values(
            f"training.{name}", shape, 1 / math.sqrt(shape[-1]), "f32"
        ).requires_grad_()
        for name, shape in shapes.items()
    }


def train(cell, inputs):
    """The losses, and in how many steps gradients were clipped."""
    params = make_params(cell, inputs)
    prefix = f"{type(cell).__name__}.0."
    own = {name.removeprefix(prefix): p for name, p in params.items() if name.startswith(prefix)}
    optimiser = torch.optim.AdamW(params.values(), **OPTIONS)
    states = [torch.zeros(1, BATCH, HIDDEN, dtype=torch.float64)] * cell.states
    losses, clipped = [], 0
    for x, target in pieces():
        one_hot = torch.nn.functional.one_hot(x, inputs).double()
        y, states = cell.run(own, one_hot, [state.detach() for state in states])
        logits = y @ params["head.W"].T + params["head.b"]
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, inputs), target.reshape(-1))
        optimiser.zero_grad()
        loss.backward()
        norm = math.sqrt(sum(float((p.grad**2).sum()) for p in params.values()))
        if norm > CLIP:
            clipped += 1
            for p in params.values():
                p.grad *= CLIP / norm
        optimiser.step()
        losses.append(loss.item())
    return losses, clipped


def main():
    torch.set_default_dtype(torch.float64)
    inputs = len(set(TEXT))
    golden = {"hidden": HIDDEN, "batch": BATCH, "length": LENGTH, "clip": CLIP}
    golden |= {"learning_rate": OPTIONS["lr"], "weight_decay": OPTIONS["weight_decay"]}
    golden |= {"beta1": OPTIONS["betas"][0], "beta2": OPTIONS["betas"][1]}
    golden |= {"epsilon": OPTIONS["eps"], "losses": {}}
    for cell in (LSTM(inputs), GRU(inputs)):
        losses, clipped = train(cell, inputs)
        print(f"{type(cell).__name__}: {losses[0]:.4f} to {losses[-1]:.4f}, {clipped} clipped")
        golden["losses"][type(cell).__name__] = losses
    (FOLDER / "training.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
