"""`Cell`: any cell or network as an nn.Module."""

import functools
import math
from collections import namedtuple

import torch
from torch import nn

from rnnc.torch import calls


class Cell(nn.Module):
    """A cell or network from its equations.

    `source` and `definition` are as in `rnnc.compile`, dims are keyword arguments. `dtype` is that of
    inputs and outputs; params are of `param_dtype`, which may be float32 beside 16-bit arrays. Params
    have the names in the text, so that `state_dict` does; matrices begin as Glorot and Bengio (2010)
    say, vectors with zero.

    Called with the input [T, B, ...] (several: in their order), it gives the output (several: a named
    tuple) and the final states [B, ...] as a named tuple, which goes in again as `states`.

        states    of an earlier call, or a dict of some; others begin as declared
        lengths   [B], steps of each sequence: states stay, outputs are zero past its end
        reset     [T, B]: not zero where a sequence begins anew

    Gradients are by params, inputs and the states that are given. One call at a time. `to` other
    devices or types is refused: a cell is compiled for its own.
    """

    def __init__(
        self,
        source,
        definition=None,
        *,
        device="cpu",
        dtype=torch.float32,
        param_dtype=None,
        batch_first=False,
        tf32=False,
        residuals="auto",
        cache=None,
        **dims,
    ):
        super().__init__()
        self.compiled = calls.Compiled(
            source,
            definition,
            device=device,
            dtype=dtype,
            param_dtype=param_dtype,
            tf32=tf32,
            residuals=residuals,
            cache=cache,
            **dims,
        )
        self.batch_first = batch_first
        self.places = []  # of each param: its module, and its name there
        for info in self.program.params:
            values = torch.empty(
                info.shape, device=self.compiled.device, dtype=self.compiled.param_dtype
            )
            self._register(info, values)
        self.reset_parameters()

    @property
    def program(self):
        return self.compiled.program

    def _register(self, info, values):
        """`LSTM.0.W` lies in modules of these names, so that its key in a state_dict is its name."""
        *path, name = info.name.split(".")
        module = self
        for part in path:
            if part not in module._modules:
                module.add_module(part, nn.Module())
            module = module._modules[part]
        module.register_parameter(name, nn.Parameter(values))
        self.places.append((module, name))

    def reset_parameters(self):
        for parameter in self.parameters():
            with torch.no_grad():
                if parameter.dim() < 2:
                    parameter.zero_()
                else:
                    bound = math.sqrt(6 / (parameter.shape[-1] + parameter.shape[-2]))
                    parameter.uniform_(-bound, bound)

    def _apply(self, fn, recurse=True):
        before = [(p.device, p.dtype) for p in self.parameters()]
        probe = [fn(torch.empty(0, device=d, dtype=t)) for d, t in before]
        if [(p.device, p.dtype) for p in probe] != before:
            raise RuntimeError(
                "a cell is compiled for its device and type: make another with device= and dtype=, "
                "and load its state_dict"
            )
        return super()._apply(fn, recurse)

    @torch.compiler.disable
    def forward(self, *inputs, states=None, lengths=None, reset=None):
        if self.batch_first:
            inputs = [x.transpose(0, 1) if isinstance(x, torch.Tensor) else x for x in inputs]
        params = [module._parameters[name] for module, name in self.places]
        outputs, finals = self.compiled(inputs, params, states, lengths, reset)
        if self.batch_first:
            outputs = [y.transpose(0, 1) for y in outputs]
        outputs = _tuple_type("Outputs", self._names(self.program.outputs))(*outputs)
        states = _tuple_type("States", self._names(self.program.states))(*finals)
        return outputs[0] if len(outputs) == 1 else outputs, states

    @staticmethod
    def _names(infos):
        return tuple(info.name for info in infos)

    def extra_repr(self):
        inputs = ", ".join(f"{i.name}: {list(i.shape)}" for i in self.program.inputs)
        outputs = ", ".join(f"{o.name}: {list(o.shape)}" for o in self.program.outputs)
        return f"({inputs}) -> {outputs}, {self.program.dtype} on {self.program.device}"


@functools.cache
def _tuple_type(name, fields):
    """Names that Python has no fields for (`h@2`) go by their positions."""
    return namedtuple(name, fields, rename=True)
