"""Linear recurrences from pre-activations, forward and training, beside what memory allows and JAX.

    python3 bench/scan_cells.py [--device cuda] [--dtypes f32,bf16] [--cells MinGRU,RWKV4]
                                [--batch 8 --steps 4096 --hidden 1536] [--seconds 0.2] [--json FILE]

Cells of bench/cells/linear.rnn. A row has microseconds of a call, picoseconds per element, and the
share: the time that a sum takes for as many arrays as the cell must read and write, by the cell's
time. Forward moves inputs and outputs; backward reads these, what the forward half saved and the
outputs' gradients, and writes the inputs' gradients. JAX is jax.lax.associative_scan under jit and
its gradient; PyTorch, of MinGRU alone, a loop over the steps. Arrays are on the device already, and
times are medians. A peer that is not installed, or has no such device, is named and left out.
"""

import argparse
import json

import numpy as np

from common import median_seconds, run_bench
from recurrence_shapes import ROOT

FILE = ROOT / "bench/cells/linear.rnn"
# Inputs, outputs and arrays that the forward half saves.
CELLS = {"MinGRU": (2, 1, 0), "MinLSTM": (3, 1, 0), "RGLRU": (3, 1, 0), "HGRN": (3, 1, 1),
         "QRNN": (3, 1, 1), "LRU": (2, 2, 0), "RWKV4": (3, 1, 3)}


def arrays_moved(cell):
    """Of an inference call, and of the backward half."""
    inputs, outputs, saved = CELLS[cell]
    states = saved if saved > 0 else outputs  # outputs are states where none is saved
    return inputs + outputs, 2 * inputs + outputs + states


# ---- rnnc ----


def measure_rnnc(options, cell, dtype, backward=False):
    """Seconds of a call; with `backward`, of the backward half alone."""
    words = {"batch": options.batch, "steps": options.steps, "device": options.device,
             "dtype": dtype, "seconds": options.seconds}
    if backward:
        words["backward"] = True
    result = run_bench(options.rnnc, [FILE, "--cell", cell], {"H": options.hidden}, words)
    step = result["microseconds_per_step"]
    if backward:
        return (step - result["forward_microseconds_per_step"]) * options.steps * 1e-6
    return result.get("replayed_microseconds_per_step", step) * options.steps * 1e-6


# ---- JAX ----


def linear_scan(jax, a, b):
    join = lambda left, right: (right[0] * left[0], right[0] * left[1] + right[1])
    return jax.lax.associative_scan(join, (a, b))[1]


def rwkv4(jax, inputs, params):
    """Sums relative to a running maximum, as an associative operator."""
    jnp = jax.numpy
    (r, k, v), (w, u) = inputs, params

    def join(left, right):
        p = jnp.maximum(left[1] - right[0], right[1])
        before, after = jnp.exp(left[1] - right[0] - p), jnp.exp(right[1] - p)
        return (left[0] + right[0], p, before * left[2] + after * right[2],
                before * left[3] + after * right[3])

    _, p, a, b = jax.lax.associative_scan(
        join, (jnp.broadcast_to(w, k.shape), k, v, jnp.ones_like(k)))
    earlier = lambda value, first: jnp.concatenate([jnp.full_like(value[:1], first), value[:-1]])
    p, a, b = earlier(p, -1e30), earlier(a, 0), earlier(b, 0)
    q = jnp.maximum(p, u + k)
    past, now = jnp.exp(p - q), jnp.exp(u + k - q)
    return jax.nn.sigmoid(r) * (past * a + now * v) / (past * b + now)


def jax_cell(jax, cell, inputs, params):
    """The outputs, one behind the other, as bench/cells/linear.rnn defines them."""
    jnp, sigmoid = jax.numpy, jax.nn.sigmoid
    scan = lambda a, b: linear_scan(jax, a, b)
    if cell == "RWKV4":
        return rwkv4(jax, inputs, params)
    if cell == "MinGRU":
        z = sigmoid(inputs[0])
        return scan(1 - z, z * inputs[1])
    if cell == "LRU":
        nu, theta = (value.astype(jnp.float32) for value in params)
        size = jnp.exp(-jnp.exp(nu))
        decay = size * jnp.exp(1j * jnp.exp(theta))
        given = jnp.sqrt(1 - size * size) * (inputs[0] + 1j * inputs[1])
        h = scan(jnp.broadcast_to(decay, given.shape), given)
        return jnp.stack([h.real, h.imag]).astype(inputs[0].dtype)
    first, second, third = inputs
    if cell == "MinLSTM":
        keep, take = sigmoid(first), sigmoid(second)
        return scan(keep / (keep + take), take * third / (keep + take))
    if cell == "RGLRU":
        log_a = -8 * jax.nn.softplus(params[0]) * sigmoid(first)
        return scan(jnp.exp(log_a), jnp.sqrt(-jnp.expm1(2 * log_a)) * (sigmoid(second) * third))
    keep = sigmoid(second)
    if cell == "HGRN":
        keep = params[0] + (1 - params[0]) * keep
        return sigmoid(third) * scan(keep, (1 - keep) * jax.nn.silu(first))
    return sigmoid(third) * scan(keep, (1 - keep) * jnp.tanh(first))  # QRNN


PARAMS = {"RGLRU": 1, "HGRN": 1, "LRU": 2, "RWKV4": 2}


def given_arrays(cell, batch, steps, hidden):
    """Inputs [T, B, H] and params [H] of a cell in f32."""
    random = np.random.default_rng(1)
    inputs = [random.standard_normal((steps, batch, hidden), dtype=np.float32)
              for _ in range(CELLS[cell][0])]
    return inputs, [random.uniform(0.1, 0.9, hidden).astype(np.float32)
                    for _ in range(PARAMS.get(cell, 0))]


def measure_jax(options, cell, dtype, backward=False):
    import jax

    device = next((d for d in jax.devices() if (d.platform == "gpu") == (options.device == "cuda")),
                  None)
    if device is None:
        raise ImportError("it has no such device here")
    kind = {"f32": "float32", "bf16": "bfloat16"}[dtype]
    arrays = given_arrays(cell, options.batch, options.steps, options.hidden)
    inputs, params = jax.tree.map(
        lambda array: jax.device_put(jax.numpy.asarray(array, dtype=kind), device), arrays)
    run = jax.jit(lambda inputs, params: jax_cell(jax, cell, inputs, params))
    forward = median_seconds(lambda: run(inputs, params).block_until_ready(), options.seconds)
    if not backward:
        return forward
    loss = lambda inputs, params, weight: (jax_cell(jax, cell, inputs, params) * weight).sum()
    gradients = jax.jit(jax.grad(loss, argnums=(0, 1)))
    weight = jax.numpy.ones_like(run(inputs, params))
    both = median_seconds(lambda: jax.block_until_ready(gradients(inputs, params, weight)),
                          options.seconds)
    return both - forward


# ---- PyTorch ----


def measure_torch(options, cell, dtype, backward=False):
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        raise ImportError("it has no GPU here")
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    arrays, _ = given_arrays(cell, options.batch, options.steps, options.hidden)
    p, n = (torch.tensor(array, dtype=kind, device=options.device, requires_grad=backward)
            for array in arrays)
    done = torch.cuda.synchronize if options.device == "cuda" else lambda: None

    def forward():
        z = torch.sigmoid(p)
        a, b, h, states = 1 - z, z * n, torch.zeros_like(p[0]), []
        for t in range(options.steps):
            h = a[t] * h + b[t]
            states.append(h)
        return torch.stack(states)

    def both():
        forward().sum().backward()
        done()

    alone = median_seconds(lambda: (forward(), done()), options.seconds, least=1)
    return median_seconds(both, options.seconds, least=1) - alone if backward else alone


# ---- The table ----


class Peers:
    """Peers that have not failed yet, each with the cells that it has."""

    def __init__(self):
        self.left = {"JAX": (measure_jax, set(CELLS)), "PyTorch loop": (measure_torch, {"MinGRU"})}

    def measure(self, options, cell, dtype, backward):
        times = {}
        for name, (way, cells) in list(self.left.items()):
            if cell not in cells:
                continue
            try:
                times[name] = way(options, cell, dtype, backward)
            except ImportError as error:
                print(f"# {name}: left out, {error}")
                del self.left[name]
            except Exception as error:  # one's failure must not end the run
                print(f"# {name}, {cell} in {dtype}, failed: "
                      f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
        return times


def row_of(options, peers, cell, dtype, half, seconds_per_array):
    backward = half == "backward"
    seconds = measure_rnnc(options, cell, dtype, backward)
    elements = options.batch * options.steps * options.hidden
    row = {"cell": cell, "dtype": dtype, "half": half, "us": seconds * 1e6,
           "ps": seconds * 1e12 / elements,
           "share": arrays_moved(cell)[backward] * seconds_per_array / seconds}
    for name, other in peers.measure(options, cell, dtype, backward).items():
        row[f"{name} us"] = other * 1e6
    text = [cell, dtype, half, f"{row['us']:.1f} us", f"{row['ps']:.2f} ps", f"{row['share']:.0%}"]
    text += [f"{name} {value:.1f} us ({value / row['us']:.1f}x)"
             for name, value in ((key[:-3], row[key]) for key in row if key.endswith(" us"))]
    print(*text, sep="\t", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rnnc", default=ROOT / "build/default/tools/rnnc")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtypes", default="f32", help="f32, bf16 or both, by commas")
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each measurement")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows, peers = [], Peers()
    for dtype in options.dtypes.split(","):
        seconds_per_array = measure_rnnc(options, "Sum", dtype) / 3
        print(f"# a sum in {dtype}: {seconds_per_array * 1e6:.1f} us for each array", flush=True)
        for cell in options.cells.split(","):
            for half in ("forward", "backward"):
                rows.append(row_of(options, peers, cell, dtype, half, seconds_per_array))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"batch": options.batch, "steps": options.steps, "hidden": options.hidden,
                       "device": options.device, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
