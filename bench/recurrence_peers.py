"""What bench/recurrences.py measures beside cuDNN and torch.nn: JAX and FlashRNN, where installed.

Each function takes a Case and returns microseconds per step, forward or forward and backward, as
the median of calls; None for cells that the peer has not, or that nobody wrote for it here.
"""

import functools
import statistics

SECONDS = 0.3  # of each measurement


def median_us(call, steps):
    """Of a call of PyTorch's on the GPU, per step."""
    import torch

    times, total = [], 0.0
    for _ in range(3):
        call()
    while len(times) < 5 or total < SECONDS * 1e6:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
        total += times[-1]
    return statistics.median(times) / steps


def time_flashrnn(case, backward):
    """The faster of its two CUDA backends, products of the input done, as the case has them."""
    if not case.heads or case.dtype not in ("bf16", "f32"):
        return None
    import torch
    from flashrnn.flashrnn import flashrnn

    kind = {"bf16": torch.bfloat16, "f32": torch.float32}[case.dtype]
    width = case.hidden // case.heads
    gates = torch.randn(case.batch, case.steps, 4, case.heads, width, device="cuda", dtype=kind)
    weights = torch.randn(4, case.heads, width, width, device="cuda", dtype=kind) * width**-0.5
    bias = torch.zeros(4, case.heads, width, device="cuda", dtype=kind)
    for tensor in (gates, weights, bias):
        tensor.requires_grad_(backward)
    times, failure = [], None
    for backend in ("cuda_fused", "cuda"):
        run = functools.partial(flashrnn, gates, weights, bias, function=case.cell,
                                backend=backend, dtype=str(kind).removeprefix("torch."))
        try:
            states = run()[0]
            by_states = torch.randn_like(states)
            if backward:
                call = lambda run=run: run()[0].backward(by_states)
            else:
                call = run
            times.append(median_us(call, case.steps))
        except RuntimeError as error:  # of its compiler, or no tile that fits
            failure = error
    if not times:
        raise RuntimeError(failure)
    return min(times)


def time_jax(case, backward):
    """`lax.scan` under `jit`, its input products done at once, of the cells in cells_peers.py."""
    if case.layers > 1 or case.heads or case.dtype != "bf16":
        return None
    import jax
    import jax.numpy as jnp

    import cells_peers

    found = [cell for cell in cells_peers.CELLS.values() if cell.file == f"{case.cell}.rnn"]
    if not found:
        return None
    params, x = cells_peers.random_arrays(found[0], case.hidden, case.steps, case.batch)
    make = cells_peers.jax_gradients if backward else cells_peers.jax_call
    call = make(found[0], params, x, jnp.bfloat16)
    jax.block_until_ready(call())
    return cells_peers.time_jax(call, 25) / case.steps * 1e6


PEERS = {"flashrnn": time_flashrnn, "jax": time_jax}


def time_peers(row, backward):
    """Those that can be imported; a failure stops no other."""
    for name, measure in PEERS.items():
        try:
            us = measure(row["case"], backward)
        except ImportError as error:
            row.setdefault("peer_failures", {})[name] = str(error)
        except RuntimeError as error:  # jaxlib's and torch's alike
            row.setdefault("peer_failures", {})[name] = " ".join(str(error).split())[-300:]
        else:
            if us is not None:
                row.setdefault("peers_us", {})[name] = us
