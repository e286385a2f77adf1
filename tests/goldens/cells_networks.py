"""Layers of cells, some in both directions, in float64 by PyTorch's modules."""

import torch
from torch import nn

from cells import elman_layer, gru_layer, lstm_layer, module, over_time


def network(data, cell, kind, layer, layers=2, project=False, **options):
    """`layers` layers of a cell by a module of this kind; `layer` gives a layer's weights."""
    data.source = f"torch.nn.{kind.__name__}"
    if project:  # PyTorch asks for a projection to fewer units
        H = data.sizes["H"] = data.sizes["H"] + data.sizes["H"] % 2
        options["proj_size"] = data.dim("P", H // 2)
    H, F, L = data.hidden, data.dim("F", data.sizes["I"]), data.dim("L", layers)
    directions = 1 + options.get("bidirectional", False)
    sizes = {"h": options.get("proj_size", H)} | ({"c": H} if kind is nn.LSTM else {})
    names = [f"{cell}.{number}." for number in range(L * directions)]
    weights = [
        layer(data, F if number < directions else directions * sizes["h"], sizes["h"], name)
        for number, name in enumerate(names)
    ]
    initial = [
        torch.stack([data.state(name + state, size) for name in names])
        for state, size in sizes.items()
    ]
    run = module(kind, H, weights, **options)
    y, last = run(data.input("x", F), tuple(initial) if kind is nn.LSTM else initial[0])
    finals = dict(zip(sizes, last if kind is nn.LSTM else (last,)))
    return {"y": y}, {n + s: value[k] for k, n in enumerate(names) for s, value in finals.items()}


def StackedElman(data):
    return network(data, "Elman", nn.RNN, elman_layer)


def StackedElmanReLU(data):
    return network(data, "ElmanReLU", nn.RNN, elman_layer, nonlinearity="relu")


def StackedGRU(data):
    return network(data, "GRU", nn.GRU, gru_layer)


def StackedLSTM(data):
    return network(data, "LSTM", nn.LSTM, lstm_layer)


def StackedProjectedLSTM(data):
    return network(data, "ProjectedLSTM", nn.LSTM, lstm_layer, project=True)


def BidirectionalElman(data):
    return network(data, "Elman", nn.RNN, elman_layer, bidirectional=True)


def BidirectionalGRU(data):
    return network(data, "GRU", nn.GRU, gru_layer, bidirectional=True)


def BidirectionalLSTM(data):
    return network(data, "LSTM", nn.LSTM, lstm_layer, bidirectional=True)


def BidirectionalProjectedLSTM(data):
    return network(data, "ProjectedLSTM", nn.LSTM, lstm_layer, project=True, bidirectional=True)


def BidirectionalMinGRU(data):
    """Feng et al. 2024, one direction after the other."""
    H, F, L = data.hidden, data.dim("F", data.sizes["I"]), data.dim("L", 2)
    y, finals = data.input("x", F), {}
    for layer in range(L):
        directions = []
        for reverse in (False, True):
            name = f"MinGRU.{2 * layer + reverse}."
            W = {g: data.param(f"{name}W_{g}", H, y.shape[-1]) for g in "zn"}
            b = {g: data.param(f"{name}b_{g}", H) for g in "zn"}
            x = y.flip(0) if reverse else y
            z = torch.sigmoid(x @ W["z"].T + b["z"])
            n = x @ W["n"].T + b["n"]
            h, last = over_time(
                lambda zn, h: (torch.lerp(h, zn[1], zn[0]),),
                torch.stack([z, n], dim=1),
                data.state(name + "h", H),
            )
            directions.append(h.flip(0) if reverse else h)
            finals[name + "h"] = last
        y = torch.cat(directions, dim=-1)
    return {"y": y}, finals


def DilatedRNN(data):
    """Chang et al. 2017, with tanh units: layer l reads itself 2^l steps back."""
    H, F, L = data.hidden, data.dim("F", data.sizes["I"]), data.dim("L", 4)
    y, finals = data.input("x", F), {}
    for layer in range(L):
        name, dilation = f"DilatedElman.{layer}.", 2**layer
        W, R = data.param(name + "W", H, y.shape[-1]), data.param(name + "R", H, H)
        b = data.param(name + "b", H)
        names = [f"{name}h@{k}" for k in range(dilation, 1, -1)] + [name + "h"]
        h = [data.state(earlier, H) for earlier in names]
        for x in y:
            h.append(torch.tanh(x @ W.T + h[-dilation] @ R.T + b))
        finals |= dict(zip(names, h[-dilation:]))
        y = torch.stack(h[dilation:])
    return {"y": y}, finals


CELLS = [
    StackedElman, StackedElmanReLU, StackedGRU, StackedLSTM, StackedProjectedLSTM,
    BidirectionalElman, BidirectionalGRU, BidirectionalLSTM, BidirectionalProjectedLSTM,
    BidirectionalMinGRU, DilatedRNN,
]  # fmt: skip
