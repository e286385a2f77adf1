"""`LSTM`, `GRU` and `RNN`: PyTorch's modules, computed by rnnc."""

from typing import TypeVar

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from rnnc.torch import calls
from rnnc.torch.packed import packed_like, padded
from rnnc.torch.programs import source_of

# Params come as PyTorch stacks them: all gates' matrices of the input, of the state, and both biases.
LSTM_TEXT = """cell LSTM[{dims}](x: [I]) -> h {{
  state h: [{out}]
  state c: [H]
  param W_i, W_f, W_g, W_o: [H, I]
  param R_i, R_f, R_g, R_o: [H, {out}]
{params}
  i = sigmoid(W_i @ x[t] + R_i @ h[t-1]{b_i}{c_i})
  f = sigmoid(W_f @ x[t] + R_f @ h[t-1]{b_f}{c_f})
  g = tanh(W_g @ x[t] + R_g @ h[t-1]{b_g}{c_g})
  o = sigmoid(W_o @ x[t] + R_o @ h[t-1]{b_o}{c_o})
  c[t] = f * c[t-1] + i * g
  h[t] = {projection}(o * tanh(c[t]))
}}
"""

GRU_TEXT = """cell GRU[{dims}](x: [I]) -> h {{
  state h: [H]
  param W_r, W_z, W_n: [H, I]
  param R_r, R_z, R_n: [H, H]
{params}
  r = sigmoid(W_r @ x[t] + R_r @ h[t-1]{b_r}{c_r})
  z = sigmoid(W_z @ x[t] + R_z @ h[t-1]{b_z}{c_z})
  n = tanh(W_n @ x[t]{b_n} + r * (R_n @ h[t-1]{c_n}))
  h[t] = (1 - z) * n + z * h[t-1]
}}
"""

RNN_TEXT = """cell RNN[{dims}](x: [I]) -> h {{
  state h: [H]
  param W_h: [H, I]
  param R_h: [H, H]
{params}
  h[t] = {function}(W_h @ x[t] + R_h @ h[t-1]{b_h}{c_h})
}}
"""

LAYERS_TEXT = """network Layers[{dims}](x: [I]) -> y {{
  y = x
  for l in 0..{layers} {{ y = {layer} }}
}}
"""


def _text(template, gates, has_bias, has_projection, layers, two_ways, function):
    """Of all layers in one text; one layer in one direction is the cell alone."""
    dims = ["I", "H", "P"] if has_projection else ["I", "H"]
    biases = [f"{kind}_{gate}" for kind in "bc" for gate in gates]
    terms = {name: f" + {name}" if has_bias else "" for name in biases}
    params = f"  param {', '.join(biases)}: [H]" if has_bias else ""
    terms |= dict(dims=", ".join(dims), out=dims[-1], function=function)
    terms["projection"] = "W_h @ " if has_projection else ""
    if has_projection:
        params += "\n  param W_h: [P, H]"
    text = template.format(params=params, **terms)
    if layers == 1 and not two_ways:
        return text
    name = text[len("cell ") : text.index("[")]
    one = f"{name}[{', '.join(f'{dim} = {dim}' for dim in dims[1:])}](y)"
    layer = f"concat({one}, reverse {one})" if two_ways else one
    return text + LAYERS_TEXT.format(dims=", ".join(dims), layers=layers, layer=layer)


_known_names = {}


def _names(*key):
    """Of the params of some layers, in the order of the text."""
    if key not in _known_names:
        first, last, two_ways, has_bias, has_projection = key
        kinds = ["weight_ih", "weight_hh"]
        kinds += ["bias_ih", "bias_hh"] * has_bias + ["weight_hr"] * has_projection
        _known_names[key] = [
            f"{kind}_l{layer}{direction}"
            for layer in range(first, last)
            for direction in (("", "_reverse") if two_ways else ("",))
            for kind in kinds
        ]
    return _known_names[key]


class Layers:
    """What the three have in common."""

    frozen = False
    template, gates = "", ""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.make_sources()

    def make_sources(self):
        """Of all layers at once; where dropout is between them also of each alone. By the number of
        layers, and of values that the first takes."""
        ways = 2 if self.bidirectional else 1
        keys = {(self.num_layers, self.input_size)}
        if self.dropout > 0 and self.num_layers > 1:
            keys |= {(1, self.input_size), (1, self._width())}
        dims, gates = {"H": self.hidden_size}, len(self.gates)
        stacked = [gates] * (4 if self.bias else 2)
        if self.proj_size > 0:
            dims["P"] = self.proj_size
            stacked.append(1)
        function = self.mode.removeprefix("RNN_").lower()  # of RNN: tanh or relu
        self.sources = {}
        for layers, size in keys:
            text = _text(
                self.template, self.gates, self.bias, self.proj_size > 0, layers, self.bidirectional,
                function,
            )
            self.sources[layers, size] = source_of(
                text,
                "Layers" if layers * ways > 1 else None,
                {"I": size} | dims,
                device=self.weight_hh_l0.device,
                stacked=stacked,
                layers=layers * ways,
            )

    def _width(self):
        """Of the output."""
        return (self.proj_size or self.hidden_size) * (2 if self.bidirectional else 1)

    def _params(self, first, last):
        """Of some layers."""
        names = _names(first, last, self.bidirectional, self.bias, self.proj_size > 0)
        try:
            return list(map(self._parameters.__getitem__, names))
        except KeyError:
            return [getattr(self, name) for name in names]

    def forward(self, input, hx=None):
        if isinstance(input, PackedSequence):
            x, packing = padded(input)
            y, states = self._run(x, self._split(hx), packing.lengths)
            return packed_like(y, packing, input), self._join(states)
        if input.dim() == 2:
            hx = None if hx is None else [state[:, None] for state in self._split(hx)]
            y, states = self._run(input[:, None], hx, None)
            return y[:, 0], self._join([state[:, 0] for state in states])
        if self.batch_first and input.dim() > 1:
            y, states = self._run(input.transpose(0, 1), self._split(hx), None)
            return y.transpose(0, 1), self._join(states)
        y, states = self._run(input, self._split(hx), None)
        return y, self._join(states)

    def _run(self, x, hx, lengths):
        """[T, B, ...]; states by kind, [layers * directions, B, H]."""
        count = self.num_layers
        if self.dropout == 0 or not self.training or count == 1:
            return self._call(x, hx, lengths, 0, count)
        finals, ways = [], 2 if self.bidirectional else 1
        for layer in range(count):
            own = None if hx is None else [s[layer * ways : (layer + 1) * ways] for s in hx]
            x, last = self._call(x, own, lengths, layer, layer + 1)
            finals.append(last)
            if layer + 1 < count:
                x = nn.functional.dropout(x, self.dropout, self.training)
        return x, [torch.cat(states) for states in zip(*finals)]

    def _call(self, x, hx, lengths, first, last):
        size = self.input_size if first == 0 else self._width()
        source = self.sources[last - first, size]
        params = self._params(first, last)
        y, *finals = calls.call(source, [x], params, hx, lengths, None, self.frozen)
        # Within autocast nn's states have the type of its outputs.
        dtype = y.dtype
        return y, finals if finals[0].dtype is dtype else [s.to(dtype) for s in finals]

    def prepare(self, batch, steps, **kind):
        """As Cell.prepare; `lengths`: for packed sequences."""
        calls.prepare(*self.whole(), calls.Wish(batch, steps, **kind))

    def explain(self, batch=16, steps=100, **kind):
        """How such calls run, and what they cost: an rnnc.Explanation. Arguments are as in `prepare`."""
        return calls.explain(*self.whole(), calls.Wish(batch, steps, **kind))

    def whole(self):
        """The Source of all layers, and its params."""
        count = self.num_layers
        return self.sources[count, self.input_size], self._params(0, count)

    def _split(self, hx):
        return None if hx is None else [hx]

    def _join(self, states):
        return states[0]


# Not of nn.LSTM and so on: torch.compile does not look into modules that are.


class LSTM(Layers, nn.RNNBase):
    """As nn.LSTM: its arguments, results and state_dict. f32 is exact, not TF32."""

    template, gates = LSTM_TEXT, "ifgo"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device=None,
        dtype=None,
    ) -> None:
        sizes = input_size, hidden_size, num_layers
        options = bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        super().__init__("LSTM", *sizes, *options)

    def _split(self, hx):
        return None if hx is None else list(hx)

    def _join(self, states):
        return tuple(states)


class GRU(Layers, nn.RNNBase):
    """As nn.GRU: its arguments, results and state_dict. f32 is exact, not TF32."""

    template, gates = GRU_TEXT, "rzn"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        device=None,
        dtype=None,
    ) -> None:
        sizes, options = (input_size, hidden_size, num_layers), (bias, batch_first, dropout)
        super().__init__("GRU", *sizes, *options, bidirectional, device=device, dtype=dtype)


class RNN(Layers, nn.RNNBase):
    """As nn.RNN: its arguments, results and state_dict. f32 is exact, not TF32."""

    template, gates = RNN_TEXT, "h"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        device=None,
        dtype=None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity: expected 'tanh' or 'relu', not {nonlinearity!r}")
        mode, sizes = f"RNN_{nonlinearity.upper()}", (input_size, hidden_size, num_layers)
        options = bias, batch_first, dropout, bidirectional
        super().__init__(mode, *sizes, *options, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity


Model = TypeVar("Model", bound=nn.Module)


def replace(model: Model) -> Model:
    """Makes each nn.LSTM, nn.GRU and nn.RNN in a model, or the model itself, rnnc's. Their Parameters
    stay the same objects, so that optimizers go on. Subclasses of the three, and those that have
    parametrizations, stay as they are. Gives the model."""
    kinds = {nn.LSTM: LSTM, nn.GRU: GRU, nn.RNN: RNN}
    for module in model.modules():
        kind = kinds.get(type(module))
        if kind is not None:
            module.__class__ = kind
            module.make_sources()
    return model
