"""How rnnc's modules of a model run on GPUs, from now on: functions that give the model."""

from rnnc.torch.cell import Cell
from rnnc.torch.layers import Layers


def spare_multiprocessors(model, count):
    """Leaves so many of a GPU's multiprocessors to what runs beside rnnc's modules in `model`. A kernel
    that stays for all steps else takes what it can, and NCCL's wait until it ends: a few let gradients
    of one layer travel while the layer below runs backward."""
    return _set(model, spare_multiprocessors=count)


def tune(model, wanted=True):
    """The first call of a shape measures the best few ways to run its recurrences, forward and backward
    apart, and takes the fastest, which the kernel cache remembers for this GPU, driver and rnnc. That
    takes some seconds, and is not for a call that a CUDA graph captures. Another way may give other bits:
    of ranks that train one model each may find its own."""
    return _set(model, tune=bool(wanted))


def _set(model, **options):
    for module in model.modules():
        if isinstance(module, Cell):
            module.source = module.source.on_gpus(**options)
        elif isinstance(module, Layers):
            module.sources = {key: s.on_gpus(**options) for key, s in module.sources.items()}
    return model
