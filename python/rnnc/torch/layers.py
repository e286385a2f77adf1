"""`LSTM`, `GRU` and `RNN`: PyTorch's modules, computed by rnnc."""

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from rnnc.torch import calls

LSTM_TEXT = """cell LSTM[I, H](x: [I]) -> h {{
  state h: [H]
  state c: [H]
  param W_i, W_f, W_g, W_o: [H, I]
  param R_i, R_f, R_g, R_o: [H, H]
{params}
  i = sigmoid(W_i @ x[t] + R_i @ h[t-1]{b_i})
  f = sigmoid(W_f @ x[t] + R_f @ h[t-1]{b_f})
  g = tanh(W_g @ x[t] + R_g @ h[t-1]{b_g})
  o = sigmoid(W_o @ x[t] + R_o @ h[t-1]{b_o})
  c[t] = f * c[t-1] + i * g
  h[t] = o * tanh(c[t])
}}
"""

GRU_TEXT = """cell GRU[I, H](x: [I]) -> h {{
  state h: [H]
  param W_r, W_z, W_n: [H, I]
  param R_r, R_z, R_n: [H, H]
{params}
  r = sigmoid(W_r @ x[t] + R_r @ h[t-1]{b_r})
  z = sigmoid(W_z @ x[t] + R_z @ h[t-1]{b_z})
  n = tanh(W_n @ x[t]{b_n} + r * (R_n @ h[t-1]{c_n}))
  h[t] = (1 - z) * n + z * h[t-1]
}}
"""

RNN_TEXT = """cell RNN[I, H](x: [I]) -> h {{
  state h: [H]
  param W: [H, I]
  param R: [H, H]
{params}
  h[t] = {function}(W @ x[t] + R @ h[t-1]{b})
}}
"""


def _text(template, biases, has_bias, **more):
    terms = {name: f" + {name}" if has_bias else "" for name in biases}
    params = f"  param {', '.join(biases)}: [H]" if has_bias else ""
    return template.format(params=params, **terms, **more)


class _Layers:
    """What the three have in common. Programs are compiled on first use, for the device and type that
    the params then have."""

    def _compiled(self, size, reverse):
        weight = self.weight_hh_l0
        key = (weight.device, weight.dtype, size, reverse)
        programs = self.__dict__.setdefault("_programs", {})
        if key not in programs:
            programs[key] = calls.Compiled(
                self._text(),
                device=weight.device,
                dtype=weight.dtype,
                reverse=reverse,
                I=size,
                H=self.hidden_size,
            )
        return programs[key]

    def _params(self, suffix):
        """A layer's, in the order of the text."""
        weights = [getattr(self, f"weight_{kind}_{suffix}").chunk(self.gates) for kind in ("ih", "hh")]
        params = [*weights[0], *weights[1]]
        if self.bias:
            biases = [getattr(self, f"bias_{kind}_{suffix}") for kind in ("ih", "hh")]
            params += self._biases(*biases)
        return params

    def _biases(self, ih, hh):
        return (ih + hh).chunk(self.gates)

    @torch.compiler.disable
    def forward(self, input, hx=None):
        if getattr(self, "proj_size", 0) > 0:
            raise NotImplementedError("proj_size: make a rnnc.torch.Cell of projected_lstm.rnn")
        if isinstance(input, PackedSequence):
            x, lengths = pad_packed_sequence(input)
            y, states = self._run(x, self._split(hx), lengths.to(x.device))
            return self._pack(y, lengths, input), self._join(states)
        if input.dim() == 2:
            hx = None if hx is None else [state[:, None] for state in self._split(hx)]
            y, states = self._run(input[:, None], hx, None)
            return y[:, 0], self._join([state[:, 0] for state in states])
        x = input.transpose(0, 1) if self.batch_first else input
        y, states = self._run(x, self._split(hx), None)
        return (y.transpose(0, 1) if self.batch_first else y), self._join(states)

    def _run(self, x, hx, lengths):
        """[T, B, ...]; states by kind, [layers * directions, B, H]."""
        finals = []
        directions = 2 if self.bidirectional else 1
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                number = layer * directions + direction
                suffix = f"l{layer}" + ("_reverse" if direction else "")
                states = None if hx is None else [state[number] for state in hx]
                size = self.hidden_size * directions if layer > 0 else self.input_size
                compiled = self._compiled(size, bool(direction))
                (y,), last = compiled([x], self._params(suffix), states, lengths)
                outputs.append(y)
                finals.append(last)
            x = torch.cat(outputs, -1) if directions > 1 else outputs[0]
            if self.dropout > 0 and layer + 1 < self.num_layers:
                x = nn.functional.dropout(x, self.dropout, self.training)
        return x, [torch.stack(states) for states in zip(*finals)]

    @staticmethod
    def _pack(y, lengths, like):
        order = like.sorted_indices
        if order is not None:
            y, lengths = y.index_select(1, order), lengths[order.cpu()]
        packed = pack_padded_sequence(y, lengths)
        return PackedSequence(packed.data, packed.batch_sizes, order, like.unsorted_indices)

    def _split(self, hx):
        return None if hx is None else [hx]

    def _join(self, states):
        return states[0]


class LSTM(_Layers, nn.LSTM):
    """As nn.LSTM: its arguments (but proj_size), results and state_dict. f32 is exact, not TF32."""

    gates = 4

    def _text(self):
        return _text(LSTM_TEXT, ("b_i", "b_f", "b_g", "b_o"), self.bias)

    def _split(self, hx):
        return None if hx is None else list(hx)

    def _join(self, states):
        return tuple(states)


class GRU(_Layers, nn.GRU):
    """As nn.GRU: its arguments, results and state_dict. f32 is exact, not TF32."""

    gates = 3

    def _text(self):
        return _text(GRU_TEXT, ("b_r", "b_z", "b_n", "c_n"), self.bias)

    def _biases(self, ih, hh):
        r, z, _ = (ih + hh).chunk(3)
        return r, z, ih.chunk(3)[2], hh.chunk(3)[2]


class RNN(_Layers, nn.RNN):
    """As nn.RNN: its arguments, results and state_dict. f32 is exact, not TF32."""

    gates = 1

    def _text(self):
        return _text(RNN_TEXT, ("b",), self.bias, function=self.nonlinearity)


def replace(model):
    """Makes each nn.LSTM, nn.GRU and nn.RNN in a model, or the model itself, rnnc's. Their Parameters
    stay the same objects, so that optimizers go on. Gives the model."""
    kinds = {nn.LSTM: LSTM, nn.GRU: GRU, nn.RNN: RNN}
    for module in model.modules():
        kind = kinds.get(type(module))
        if kind is not None and getattr(module, "proj_size", 0) == 0:
            module.__class__ = kind
    return model
