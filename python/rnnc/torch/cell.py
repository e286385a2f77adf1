"""`Cell`: any cell or network as an nn.Module."""

import fnmatch
import functools
import math

import torch
from torch import nn

import rnnc
from rnnc.torch import calls, operators, step_graph  # noqa: F401
from rnnc.torch.programs import NAMES, source_of


class Cell(nn.Module):
    """A cell or network from its equations.

    `source` and `definition` are as in `rnnc.compile`, dims are keyword arguments. Params are made on
    `device` in `param_dtype` (`dtype`, if it is not given), and have the names in the text, so that
    `state_dict` does. `to` moves them: the cell is compiled for the device and type of its input on
    first use. 16-bit arrays are for GPUs; params may be float32 beside them.

    Called with the input [T, B, ...] (several: in their order), it gives the output (several: a named
    tuple) and the final states [B, ...] as a named tuple, which goes in again as `states`.

        states    of an earlier call, or a dict of some; others begin as declared
        lengths   [B], steps of each sequence, 0 to T: states stay, outputs are zero past its end
        reset     [T, B], with `batch_first`, too: not zero where a sequence begins anew

    Gradients are by params, inputs and the states that are given. Calls may come from any threads.

    First values: matrices that meet a state are orthogonal (Saxe, McClelland and Ganguli 2014), others
    uniform after Glorot and Bengio (2010), vectors zero, but gains of norms one. `init` overrides that:
    a number or a function of the tensor by name or pattern, {"b_f": 1.0, "W_*": nn.init.normal_}.
    """

    def __init__(
        self,
        source,
        definition=None,
        *,
        device=None,
        dtype=None,
        param_dtype=None,
        batch_first=False,
        tf32=False,
        residuals="auto",
        cache=None,
        init=None,
        **dims,
    ):
        super().__init__()
        device = torch.get_default_device() if device is None else device
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if dtype not in NAMES:
            names = ", ".join(map(str, NAMES))
            raise ValueError(f"there are no arrays of {dtype}: expected one of {names}")
        if param_dtype not in (None, dtype, torch.float32):
            raise ValueError(f"params are {dtype} or torch.float32, not {param_dtype}")
        self.source = source_of(
            source,
            definition,
            dims,
            device=device,
            tf32=tf32,
            residuals=residuals,
            cache=cache,
        )
        self.batch_first, self.init, self.frozen = batch_first, init or {}, False
        for info in self.source.params:
            self._register(info, torch.empty(info.shape, device=device, dtype=param_dtype or dtype))
        self.reset_parameters()

    def _register(self, info, values):
        """`LSTM.0.W` lies in modules of these names, so that its key in a state_dict is its name."""
        *path, name = info.name.split(".")
        module = self
        for part in path:
            if part not in module._modules:
                module.add_module(part, nn.Module())
            module = module._modules[part]
        module.register_parameter(name, nn.Parameter(values))

    def params(self):
        """In the order of the text. Wrappers may have put others in their place."""
        names = self.source.param_names
        try:
            return list(map(self._parameters.__getitem__, names))
        except KeyError:
            return [functools.reduce(getattr, name.split("."), self) for name in names]

    @torch.no_grad()
    def reset_parameters(self):
        names = self.source.param_names
        for pattern in self.init:
            if not fnmatch.filter(names, pattern):
                raise ValueError(f"init: no param is named {pattern!r}; there are {', '.join(names)}")
        kinds = step_graph.kinds_of_params(self.source.step())
        for name, parameter in zip(names, self.params()):
            given = [value for pattern, value in self.init.items() if fnmatch.fnmatch(name, pattern)]
            if given and callable(given[-1]):
                given[-1](parameter)
            elif given:
                parameter.fill_(given[-1])
            elif name in kinds.gains:
                parameter.fill_(1)
            elif parameter.dim() < 2:
                parameter.zero_()
            elif name in kinds.recurrent:
                for block in parameter.flatten(0, -3) if parameter.dim() > 2 else [parameter]:
                    # Of 16 bits there is no decomposition.
                    wide = torch.empty_like(block, dtype=torch.promote_types(block.dtype, torch.float32))
                    block.copy_(nn.init.orthogonal_(wide))
            else:
                bound = math.sqrt(6 / (parameter.shape[-1] + parameter.shape[-2]))
                parameter.uniform_(-bound, bound)

    def prepare(self, batch, steps, **kind):
        """Compiles what calls of so many sequences and steps need, so that the first takes no longer
        than others, and so that a CUDA graph can capture it. What is compiled serves also fewer steps,
        in training from more than half as many (powers of two) on.

        `kind`, each False if not given: `training`, with gradients by the params that require them, and
        by inputs and states with `input_gradients` and `state_gradients`; `states`, calls give all of
        them; `lengths` and `reset`, calls come with them. Within torch.autocast, for calls within it.
        """
        calls.prepare(*self.whole(), calls.Wish(batch, steps, **kind))

    def stream(self, batch=1):
        """The cell step by step, with the least work for each call: a `Stream` of so many sequences."""
        from rnnc.torch.stream import Stream

        return Stream(self, batch)

    def explain(self, batch=16, steps=100, **kind):
        """How such calls run, and what they cost: an rnnc.Explanation. Arguments are as in `prepare`."""
        return calls.explain(*self.whole(), calls.Wish(batch, steps, **kind))

    def whole(self):
        """The Source, and its params."""
        return self.source, self.params()

    @torch.no_grad()
    def from_torch(self, tensors, weight_map):
        """Takes the weights of a module of PyTorch, or of a state_dict, by an rnnc.WeightMap or what one
        is made of ("torch/lstm"). Gives the cell."""
        if isinstance(tensors, nn.Module):
            tensors = tensors.state_dict()
        values = _map_of(weight_map).to_params(self._program(), tensors)
        for name, parameter in zip(self.source.param_names, self.params()):
            parameter.copy_(values[name])
        return self

    @torch.no_grad()
    def to_torch(self, weight_map):
        """The state_dict of a module of PyTorch that computes the same. Of biases that a map adds up the
        first is theirs, the others are zero."""
        params = dict(zip(self.source.param_names, (p.detach() for p in self.params())))
        return _map_of(weight_map).to_tensors(self._program(), params)

    def _program(self):
        """One that has its params; that of the CPU needs no GPU."""
        return self.source.on(torch.device("cpu"), torch.float32, torch.float32).program

    def forward(self, *inputs, states=None, lengths=None, reset=None):
        source, batch_first = self.source, self.batch_first
        if batch_first:
            inputs = [
                x.transpose(0, 1) if isinstance(x, torch.Tensor) and x.dim() > 1 else x for x in inputs
            ]
        results = calls.call(source, inputs, self.params(), states, lengths, reset, self.frozen)
        if batch_first:
            count = source.output_count
            results = [*(y.transpose(0, 1) for y in results[:count]), *results[count:]]
        return source.results(results)

    def extra_repr(self):
        def of(arrays):
            return ", ".join(f"{info.name}: {list(info.shape)}" for info in arrays)

        return f"({of(self.source.inputs)}) -> {of(self.source.outputs)}"


def _map_of(source):
    return source if isinstance(source, rnnc.WeightMap) else rnnc.WeightMap(source)
