"""The character model in PyTorch, and its weights under the names that char_lm.rnn gives them."""

import re
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

FOLDER = Path(__file__).resolve().parent
WEIGHTS = FOLDER / "char_lm.safetensors"
VOCABULARY = FOLDER / "vocabulary.txt"  # the n-th byte is character n
EXCERPT = FOLDER / "excerpt.txt"
HELD_OUT_BOOK = "Eccl"  # Ecclesiastes: in no training batch


class CharLM(nn.Module):
    """Two LSTM layers and a dense head; reads one-hot characters, gives log-probabilities."""

    def __init__(self, vocabulary, hidden):
        super().__init__()
        self.vocabulary, self.hidden = vocabulary, hidden
        self.lstm = nn.LSTM(vocabulary, hidden, num_layers=2)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, characters, state=None):
        """Characters [T, B] as numbers -> log-probabilities [T, B, V] of the next one, state."""
        one_hot = nn.functional.one_hot(characters, self.vocabulary).to(self.head.weight.dtype)
        y, state = self.lstm(one_hot, state)
        return torch.log_softmax(self.head(y), dim=-1), state


def read_books(path):
    """(training text, held-out text) of a file made by `bible -f -l 0 gen1:1-rev22:21`.

    Each of its lines is a verse with its place in front, "Ge1:1 In the beginning"; the place goes.
    """
    training, held_out = [], []
    for line in Path(path).read_text(encoding="ascii").splitlines():
        book, verse = re.fullmatch(r"(\w+?)\d+:\d+ (.*)", line).groups()
        (held_out if book == HELD_OUT_BOOK else training).append(verse + "\n")
    return "".join(training), "".join(held_out)


def encode(text, vocabulary):
    number = {character: n for n, character in enumerate(vocabulary)}
    return torch.tensor([number[character] for character in text])


def save_weights(model):
    """PyTorch stacks gates i, f, g, o in one matrix and has two biases; the cell has neither."""
    tensors = {"head.W": model.head.weight, "head.b": model.head.bias}
    for layer in range(model.lstm.num_layers):
        weights = {
            "W": getattr(model.lstm, f"weight_ih_l{layer}"),
            "R": getattr(model.lstm, f"weight_hh_l{layer}"),
            "b": getattr(model.lstm, f"bias_ih_l{layer}")
            + getattr(model.lstm, f"bias_hh_l{layer}"),
        }
        for name, stacked in weights.items():
            for gate, part in zip("ifgo", stacked.chunk(4)):
                tensors[f"LSTM.{layer}.{name}_{gate}"] = part
    save_file({name: t.detach().float().contiguous() for name, t in tensors.items()}, WEIGHTS)


def load_weights():
    """The model with the stored weights, in float64."""
    tensors = load_file(WEIGHTS)
    model = CharLM(*tensors["head.W"].shape).double()
    state = {"head.weight": tensors["head.W"], "head.bias": tensors["head.b"]}
    for layer in range(2):
        for name, target in (("W", "weight_ih"), ("R", "weight_hh"), ("b", "bias_ih")):
            parts = [tensors[f"LSTM.{layer}.{name}_{gate}"] for gate in "ifgo"]
            state[f"lstm.{target}_l{layer}"] = torch.cat(parts)
        state[f"lstm.bias_hh_l{layer}"] = torch.zeros_like(state[f"lstm.bias_ih_l{layer}"])
    model.load_state_dict(state)
    return model
