"""Models on several ranks, processes with a device each: checked before they train.

    torch.distributed.init_process_group(device_id=rnnc.torch.rank_device())
    model = rnnc.torch.data_parallel(Model().to(rnnc.torch.rank_device()))

rnnc's modules need none of this under DistributedDataParallel and fully_shard. It turns what NCCL
waits for, or answers with an index, into an error on every rank that names rank and parameter.
"""

import contextlib
import json
import os
import re
import socket

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import rnnc
from rnnc.torch.cell import Cell
from rnnc.torch.layers import Layers
from rnnc.torch.programs import ON_GPUS


def rank_device():
    """This rank's device: of the GPUs of its machine the one whose number torchrun gave it
    (LOCAL_RANK), or the only one that CUDA_VISIBLE_DEVICES lets it see; the CPU where there is no GPU.
    A RuntimeError if there are fewer GPUs than ranks."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    rank, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if gpus == 1 and os.environ.get("CUDA_VISIBLE_DEVICES"):
        return torch.device("cuda", 0)
    if rank >= gpus:
        ranks = os.environ.get("LOCAL_WORLD_SIZE", "more")
        raise RuntimeError(
            f"rank {os.environ.get('RANK', rank)} has no GPU: {ranks} ranks were started on "
            f"{socket.gethostname()}, which has {gpus}: give each a GPU (torchrun "
            f"--nproc-per-node {gpus}), or hide them all (CUDA_VISIBLE_DEVICES=) to train on the CPU"
        )
    return torch.device("cuda", rank)


def data_parallel(model, **options):
    """`model` as a DistributedDataParallel, whose options these are, after `check_ranks`.

    Where a backward pass has not reached each parameter, the next call is a RuntimeError that names
    them: `find_unused_parameters=True` allows it.
    """
    check_ranks(model)
    devices = {p.device for p in model.parameters()}
    if len(devices) == 1 and devices != {torch.device("cpu")}:
        options.setdefault("device_ids", [devices.pop()])
    return _DataParallel(model, **options)


class _DataParallel(DistributedDataParallel):
    """One whose errors name parameters, not their indices."""

    @torch.compiler.disable  # has nothing that is to be compiled
    def _pre_forward(self, *inputs, **named):
        try:
            return super()._pre_forward(*inputs, **named)
        except RuntimeError as error:
            if "finished reduction" not in str(error):
                raise
            raise RuntimeError(self._without_gradients(str(error))) from None

    def _without_gradients(self, text):
        """The error that says so, with names in place of the parameters' positions."""
        names = [
            name
            for name, p in self.module.named_parameters()
            if p.requires_grad and name not in self.parameters_to_ignore
        ]
        found = re.search(r"indices which did not receive grad for rank \d+: ([\d ]+)", text)
        missing = [names[int(index)] for index in found[1].split()] if found else ["on another rank"]
        return (
            f"rank {distributed.get_rank()}: the last backward pass gave no gradient to parameter "
            f"{', '.join(missing)}: let the loss depend on it in each step, freeze it "
            "(requires_grad_(False)), or give find_unused_parameters=True"
        )


def check_ranks(model):
    """Whether the ranks of the default group can train `model` together. All of them call it.

    A ValueError, the same on every rank, names what does not fit, with ranks and parameters: another
    version of rnnc, other equations, parameters that are missing or have another shape, type or device
    than they should, and ranks that share a GPU.
    """
    if not distributed.is_initialized():
        raise RuntimeError(
            "there are no ranks: start with torchrun, and call "
            "torch.distributed.init_process_group() before"
        )
    everyone = [None] * distributed.get_world_size()
    # Not over NCCL, which waits where ranks share a GPU.
    group = distributed.new_group(backend="gloo")
    try:
        distributed.all_gather_object(everyone, _description(model), group)
    finally:
        with contextlib.suppress(RuntimeError):
            distributed.destroy_process_group(group)
    problems = _sharing(everyone)
    for rank, own in enumerate(everyone):
        problems += [f"rank {rank}: {problem}" for problem in own["problems"]]
        problems += [f"rank {rank}: {problem}" for problem in _differences(own, everyone[0])]
    if problems:
        raise ValueError("; ".join(dict.fromkeys(problems)))


def _description(model):
    """Of one rank, what others compare with theirs."""
    params = list(model.named_parameters())
    devices = {p.device for _, p in params}
    return {
        "versions": {"rnnc": rnnc.version(), "PyTorch": torch.__version__},
        "cells": dict(_cells(model)),
        "params": {name: _kind(p) for name, p in params},
        "problems": _misplaced(params),
        "host": socket.gethostname(),
        "gpus": sorted(_identity(d) for d in devices if d.type == "cuda"),
    }


def _kind(parameter):
    needs = "" if parameter.requires_grad else ", frozen"
    return f"{parameter.dtype} {list(parameter.shape)}{needs}"


def _identity(device):
    """The same for a GPU on all ranks, whatever number each has for it."""
    return str(torch.cuda.get_device_properties(device).uuid)


def _cells(model):
    """Names of rnnc's modules, and what they compute."""
    for name, module in model.named_modules():
        if isinstance(module, Cell):
            yield name, [_equations(module.source.text)]
        elif isinstance(module, Layers):
            yield name, [_equations(source.text) for source in module.sources.values()]


def _equations(text):
    """Without what may differ."""
    fields = json.loads(text)
    for name in ("build", "cache", *ON_GPUS):
        fields.pop(name, None)
    return json.dumps(fields, sort_keys=True)


def _misplaced(params):
    """Parameters elsewhere than on this rank's device, if that is a GPU."""
    on_gpu = [p.device for _, p in params if p.device.type == "cuda"]
    if not on_gpu and distributed.get_backend() != "nccl":
        return []
    expected = rank_device()
    if "LOCAL_RANK" not in os.environ and on_gpu:
        expected = on_gpu[0]
    return [
        f"parameter {name} is on {p.device}, expected {expected}"
        for name, p in params
        if p.device != expected
    ]


def _sharing(everyone):
    """Ranks that use a GPU which an earlier one uses."""
    users, problems = {}, []
    for rank, own in enumerate(everyone):
        for gpu in own["gpus"]:
            first = users.setdefault((own["host"], gpu), rank)
            if first != rank:
                problems.append(
                    f"ranks {first} and {rank} use the same GPU of {own['host']}: move each model to "
                    "rnnc.torch.rank_device()"
                )
    return problems


def _differences(own, first):
    """From the first rank."""
    for what, version in own["versions"].items():
        if version != first["versions"][what]:
            yield f"{what} {version}, but rank 0 has {first['versions'][what]}"
    for name in first["params"] | own["params"]:
        here, there = own["params"].get(name, "missing"), first["params"].get(name, "missing")
        if here != there:
            yield f"parameter {name} is {here}, but on rank 0 {there}"
    for name in first["cells"] | own["cells"]:
        if own["cells"].get(name) != first["cells"].get(name):
            yield f"module {name or 'of the model'} has other equations or options than on rank 0"
