"""Classic cells in float64: by a library where one has them, else the papers' equations.

Each function is named after its cell. It asks `data` for the input x [T, B, I], for params and
initial states by the names and shapes of the .rnn files, and gives (outputs, final states) by name.
Dims other than H and I (data.hidden, data.inputs) it gives values by `data.dim`.
"""

import numpy as np
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnxruntime import InferenceSession
from torch import nn, sigmoid, tanh


def affine(data, gate, x, h):
    """W x + R h + b of one gate."""
    H, I, R = data.hidden, x.shape[-1], h.shape[-1]
    W, R = data.param(f"W_{gate}", H, I), data.param(f"R_{gate}", H, R)
    return x @ W.T + h @ R.T + data.param(f"b_{gate}", H)


def linear(data, gate, x):
    """W x + b of one gate."""
    W, b = data.param(f"W_{gate}", data.hidden, x.shape[-1]), data.param(f"b_{gate}", data.hidden)
    return x @ W.T + b


def over_time(step, x, *state):
    """state = step(x[t], *state) over all t: the first state at every t, then the last states."""
    outputs = []
    for x_t in x:
        state = step(x_t, *state)
        outputs.append(state[0])
    return torch.stack(outputs), *state


def module(kind, hidden, layers, **options):
    """A PyTorch module; `layers` holds its weights, a dict each of PyTorch's names less "_l0".

    With bidirectional=True a layer and its reverse follow each other.
    """
    inputs, directions = layers[0]["weight_ih"].shape[1], 1 + options.get("bidirectional", False)
    result = kind(inputs, hidden, len(layers) // directions, dtype=torch.float64, **options)
    weights = {}
    for number, layer in enumerate(layers):
        layer.setdefault("bias_hh", torch.zeros_like(layer["bias_ih"]))  # one bias is enough
        place = f"_l{number // directions}" + "_reverse" * (number % directions)
        weights |= {name + place: value for name, value in layer.items()}
    # As a function of its weights, so that these get gradients.
    return lambda *args: torch.func.functional_call(result, weights, args)


def stacked(data, name, gates, *shape):
    return torch.cat([data.param(f"{name}_{gate}", *shape) for gate in gates])


def elman_layer(data, inputs, recurrent, prefix=""):
    H = data.hidden
    return {
        "weight_ih": data.param(prefix + "W", H, inputs),
        "weight_hh": data.param(prefix + "R", H, recurrent),
        "bias_ih": data.param(prefix + "b", H),
    }


def lstm_layer(data, inputs, recurrent, prefix=""):
    H = data.hidden
    layer = {
        "weight_ih": stacked(data, prefix + "W", "ifgo", H, inputs),
        "weight_hh": stacked(data, prefix + "R", "ifgo", H, recurrent),
        "bias_ih": stacked(data, prefix + "b", "ifgo", H),
    }
    if recurrent != H:
        layer["weight_hr"] = data.param(prefix + "P_h", recurrent, H)
    return layer


def gru_layer(data, inputs, recurrent, prefix=""):
    H = data.hidden
    zero = torch.zeros(2 * H, dtype=torch.float64)
    return {
        "weight_ih": stacked(data, prefix + "W", "rzn", H, inputs),
        "weight_hh": stacked(data, prefix + "R", "rzn", H, recurrent),
        "bias_ih": stacked(data, prefix + "b", "rzn", H),
        "bias_hh": torch.cat([zero, data.param(prefix + "b_hn", H)]),
    }


def Elman(data):
    data.source = "torch.nn.RNN"
    H = data.hidden
    rnn = module(nn.RNN, H, [elman_layer(data, data.inputs, H)])
    y, h = rnn(data.x, data.state("h", H)[None])
    return {"h": y}, {"h": h[0]}


def LSTM(data):
    data.source = "torch.nn.LSTM"
    H = data.hidden
    lstm = module(nn.LSTM, H, [lstm_layer(data, data.inputs, H)])
    y, (h, c) = lstm(data.x, (data.state("h", H)[None], data.state("c", H)[None]))
    return {"h": y}, {"h": h[0], "c": c[0]}


def onnx_cell(op, data, gates, **extra):
    """ONNX's operator: its reference in float64, with which its runtime must agree in float32."""
    data.source = f"onnx.reference {op}"
    H, n = data.hidden, len(gates)
    bias = torch.cat([stacked(data, "b", gates, H), torch.zeros(n * H)])
    arrays = {"X": data.x, "W": stacked(data, "W", gates, H, data.inputs)[None]}
    arrays |= {"R": stacked(data, "R", gates, H, H)[None], "B": bias[None]}
    arrays |= {name: value[None] for name, value in extra.items()}

    def model(element):
        node = helper.make_node(
            op,
            ["X", "W", "R", "B", "", *extra],  # without lengths
            ["y", "y_h", "y_c"][: 3 if "c" in extra else 2],
            hidden_size=H,
        )
        inputs = [helper.make_tensor_value_info(k, element, v.shape) for k, v in arrays.items()]
        outputs = [helper.make_tensor_value_info(k, element, None) for k in node.output]
        graph = helper.make_graph([node], op, inputs, outputs)
        opset = helper.make_opsetid("", 14)
        return helper.make_model(graph, opset_imports=[opset], ir_version=8)

    y, *states = ReferenceEvaluator(model(TensorProto.DOUBLE)).run(
        None, {name: value.numpy() for name, value in arrays.items()}
    )
    single = InferenceSession(model(TensorProto.FLOAT).SerializeToString()).run(
        None, {name: value.float().numpy() for name, value in arrays.items()}
    )
    assert all(np.allclose(a, b, atol=1e-4) for a, b in zip((y, *states), single))
    return torch.from_numpy(y[:, 0]), *(torch.from_numpy(state[0]) for state in states)


def PeepholeLSTM(data):
    """Gers, Schraudolph & Schmidhuber 2002: i and f see the old cell state, o the new one."""
    H = data.hidden
    peepholes = stacked(data, "p", "iof", H)
    y, h, c = onnx_cell(
        "LSTM", data, "iofg", h=data.state("h", H), c=data.state("c", H), P=peepholes
    )
    return {"h": y}, {"h": h, "c": c}


def ProjectedLSTM(data):
    """PyTorch's, and for P = H, which it refuses, Sak, Senior & Beaufays 2014 by hand."""
    data.source = "torch.nn.LSTM"
    H, P = data.hidden, data.dim("P", max(1, data.hidden // 2))
    projection, h, c = data.param("P_h", P, H), data.state("h", P), data.state("c", H)

    def step(x, h, c):
        i, f, g, o = (affine(data, gate, x, h) for gate in "ifgo")
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        return (sigmoid(o) * tanh(c)) @ projection.T, c

    if P == H:
        y, h, c = over_time(step, data.x, h, c)
        return {"h": y}, {"h": h, "c": c}
    lstm = module(nn.LSTM, H, [lstm_layer(data, data.inputs, P)], proj_size=P)
    y, (h, c) = lstm(data.x, (h[None], c[None]))
    return {"h": y}, {"h": h[0], "c": c[0]}


def LayerNormLSTM(data):
    """Ba, Kiros & Hinton 2016, equations 20 to 22, each gate normalised by itself."""
    H = data.hidden

    def norm(v, name):
        gain, bias = data.param(f"gain_{name}", H), data.param(f"bias_{name}", H)
        return nn.functional.layer_norm(v, (H,), gain, bias, eps=1e-5)

    def step(x, h, c):
        pre = {}
        for gate in "ifgo":
            from_x = x @ data.param(f"W_{gate}", H, data.inputs).T
            from_h = h @ data.param(f"R_{gate}", H, H).T
            pre[gate] = (
                norm(from_x, f"x{gate}") + norm(from_h, f"h{gate}") + data.param(f"b_{gate}", H)
            )
        c = sigmoid(pre["f"]) * c + sigmoid(pre["i"]) * tanh(pre["g"])
        return sigmoid(pre["o"]) * tanh(norm(c, "c")), c

    y, h, c = over_time(step, data.x, data.state("h", H), data.state("c", H))
    return {"h": y}, {"h": h, "c": c}


def GRU(data):
    """PyTorch's: the reset gate acts after the product with R_n, whose own bias is b_hn."""
    data.source = "torch.nn.GRU"
    H = data.hidden
    gru = module(nn.GRU, H, [gru_layer(data, data.inputs, H)])
    y, h = gru(data.x, data.state("h", H)[None])
    return {"h": y}, {"h": h[0]}


def GRUResetBefore(data):
    """Cho et al. 2014: the reset gate acts on h before the product (linear_before_reset=0)."""
    y, h = onnx_cell("GRU", data, "zrn", h=data.state("h", data.hidden))
    return {"h": y}, {"h": h}


def MinGRU(data):
    """Feng et al. 2024, without the log-space form."""
    z, n = sigmoid(linear(data, "z", data.x)), linear(data, "n", data.x)
    h = data.state("h", data.hidden)
    y = []
    for z_t, n_t in zip(z, n):
        h = (1 - z_t) * h + z_t * n_t
        y.append(h)
    return {"h": torch.stack(y)}, {"h": h}


def MinLSTM(data):
    """Feng et al. 2024: gates that sum to one."""

    def step(x, h):
        f, i = sigmoid(linear(data, "f", x)), sigmoid(linear(data, "i", x))
        return ((f * h + i * linear(data, "n", x)) / (f + i),)

    y, h = over_time(step, data.x, data.state("h", data.hidden))
    return {"h": y}, {"h": h}


def IndRNN(data):
    """Li et al. 2018."""
    H = data.hidden

    def step(x, h):
        return (
            torch.relu(
                x @ data.param("W", H, data.inputs).T + data.param("u", H) * h + data.param("b", H)
            ),
        )

    y, h = over_time(step, data.x, data.state("h", H))
    return {"h": y}, {"h": h}


CELLS = [
    Elman, LSTM, PeepholeLSTM, ProjectedLSTM, LayerNormLSTM, GRU, GRUResetBefore, MinGRU, MinLSTM,
    IndRNN,
]  # fmt: skip
