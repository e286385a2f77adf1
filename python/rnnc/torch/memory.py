"""Memory that programs keep on GPUs: PyTorch's, so that each has what the other leaves free.

Functions of rnnc_options, whose `context` is the number of the GPU: PyTorch does not ask CUDA for the
current one, but has its own idea of it.
"""

import threading
from ctypes import CFUNCTYPE, c_size_t, c_void_p

import torch


def outside_pools(work, *arguments):
    """`work(*arguments)` on a thread of its own: this one may be at filling a CUDA graph's pool, where
    nothing may stay."""
    thread = threading.Thread(target=work, args=arguments)
    thread.start()
    thread.join()


@CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_void_p)
def allocate(context, size, stream):
    found = []
    outside_pools(_allocate, found, size, context or 0, stream or 0)
    return found[0] if found else None


def _allocate(found, size, device, stream):
    try:
        found.append(torch.cuda.caching_allocator_alloc(size, device, stream))
    except torch.OutOfMemoryError:
        pass  # the library says how much is missing


@CFUNCTYPE(None, c_void_p, c_void_p)
def release(context, memory):
    torch.cuda.caching_allocator_delete(memory)
