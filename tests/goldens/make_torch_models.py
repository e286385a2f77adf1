"""Makes torch_models.safetensors: PyTorch's own recurrent modules with their weights, as a user's
`save_file(model.state_dict(), …)` stores them, and what they give in float64.

    python3 tests/goldens/make_torch_models.py      # needs torch, safetensors; seconds

For each model, under its name and a dot (`lstm_2_bi.`): `rnn.*` the state dict; `x` [T, B, I]; `y`,
`h_n`, `c_n`; `lengths` [B], and with them as a packed sequence `packed.y`, `packed.h_n`,
`packed.c_n`. Models of three layers start from `h_0`, `c_0`.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

STEPS, BATCH, INPUT, HIDDEN, PROJECTION = 6, 3, 3, 4, 2
LENGTHS = torch.tensor([4, 6, 1])
MODULES = {
    "lstm": lambda **options: torch.nn.LSTM(INPUT, HIDDEN, **options),
    "projected": lambda **options: torch.nn.LSTM(INPUT, HIDDEN, proj_size=PROJECTION, **options),
    "gru": lambda **options: torch.nn.GRU(INPUT, HIDDEN, **options),
    "rnn": lambda **options: torch.nn.RNN(INPUT, HIDDEN, **options),
    "relu": lambda **options: torch.nn.RNN(INPUT, HIDDEN, nonlinearity="relu", **options),
}


def named(suffix, states):
    """A module's states by name: h_0 or h_0 and c_0."""
    pair = states if isinstance(states, tuple) else (states,)
    return {f"{letter}_{suffix}": state for letter, state in zip("hc", pair)}


def initial_states(module, layers, directions):
    """Random ones, in the form that the module takes."""
    count = layers * directions
    projected = getattr(module, "proj_size", 0) or HIDDEN
    h = torch.randn(count, BATCH, projected, dtype=torch.float64)
    if not isinstance(module, torch.nn.LSTM):
        return h
    return h, torch.randn(count, BATCH, HIDDEN, dtype=torch.float64)


def run(kind, layers, bidirectional, bias):
    """The tensors of one model."""
    module = MODULES[kind](num_layers=layers, bidirectional=bidirectional, bias=bias).double()
    x = torch.randn(STEPS, BATCH, INPUT, dtype=torch.float64)
    start = initial_states(module, layers, 2 if bidirectional else 1) if layers == 3 else None
    y, states = module(x, start)
    packed = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
    packed_y, packed_states = module(packed, start)
    tensors = {f"rnn.{name}": tensor for name, tensor in module.state_dict().items()}
    tensors |= {"x": x, "y": y} | named("n", states)
    tensors |= {"lengths": LENGTHS.double(), "packed.y": pad_packed_sequence(packed_y)[0]}
    tensors |= {f"packed.{name}": state for name, state in named("n", packed_states).items()}
    return tensors | (named("0", start) if start is not None else {})


def main():
    torch.manual_seed(1)
    tensors = {}
    for kind in MODULES:
        for layers in (1, 2, 3):
            for bidirectional in (False, True):
                for bias in (True, False):
                    if kind == "relu" and (bidirectional or not bias) or not bias and layers != 2:
                        continue
                    name = f"{kind}_{layers}{'_bi' if bidirectional else ''}"
                    name += "" if bias else "_nobias"
                    for part, tensor in run(kind, layers, bidirectional, bias).items():
                        tensors[f"{name}.{part}"] = tensor.detach().contiguous()
    save_file(tensors, Path(__file__).resolve().parent / "torch_models.safetensors")


if __name__ == "__main__":
    main()
