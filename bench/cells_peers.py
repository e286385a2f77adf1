"""Time per step of cells that nobody tuned by hand: rnnc, torch.compile and JAX, in one run.

    python3 bench/cells_peers.py --rnnc build/default/tools/rnnc
    python3 bench/cells_peers.py --rnnc … --backward   # training, beside JAX alone
    python3 bench/cells_peers.py --rnnc … --check      # peers' results against rnnc's, on the CPU

One layer of each cell of examples/cells, forward, the input as wide as the hidden state. Both peers
compute the input products of all steps at once. PyTorch runs a step compiled by torch.compile, and
all steps of a call as one CUDA graph; JAX runs `lax.scan` under `jit`. The three take turns; what
counts is the median of their rounds. Run it from the repository's root. Needs torch, jax, numpy and
safetensors, and a GPU unless it is for --check.
"""

import argparse
import functools
import os
import statistics
import subprocess
import tempfile
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the GPU is shared with the others

import jax
import jax.numpy as jnp
import numpy as np
import torch
from safetensors.numpy import save_file
from torch.nn import functional

from common import add_output_argument, run_bench, write_result

RHN_DEPTH = 5


class GRUResetBefore:
    file, name, outputs = "gru_reset_before.rnn", "GRUResetBefore", "h"

    @staticmethod
    def shapes(H):
        return matrices("W_r W_z W_n R_r R_z R_n", H) | vectors("b_r b_z b_n", H)

    @staticmethod
    def before(nn, p, x):
        """What does not wait for the recurrence, for all steps."""
        return nn.product(x, join(nn, p, "W_r W_z W_n")) + join(nn, p, "b_r b_z b_n")

    @staticmethod
    def weights(nn, p):
        return join(nn, p, "R_r R_z"), p["R_n"]

    @staticmethod
    def step(nn, weights, a, states):
        R, R_n = weights
        (h,) = states
        a_r, a_z, a_n = nn.split(a, 3)
        r, z = nn.split(nn.product(h, R), 2)
        r, z = nn.sigmoid(a_r + r), nn.sigmoid(a_z + z)
        n = nn.tanh(a_n + nn.product(r * h, R_n))
        h = z * h + (1 - z) * n
        return (h,), h


class LayerNormLSTM:
    file, name, outputs = "layernorm_lstm.rnn", "LayerNormLSTM", "h"

    @staticmethod
    def shapes(H):
        names = "gain_xi gain_xf gain_xg gain_xo gain_hi gain_hf gain_hg gain_ho gain_c"
        return matrices("W_i W_f W_g W_o R_i R_f R_g R_o", H) | vectors(
            "b_i b_f b_g b_o " + names + " " + names.replace("gain", "bias"), H
        )

    @staticmethod
    def before(nn, p, x):
        gates = nn.split(nn.product(x, join(nn, p, "W_i W_f W_g W_o")), 4)
        return nn.concatenate(
            [
                nn.norm(a, p[f"gain_x{g}"], p[f"bias_x{g}"]) + p[f"b_{g}"]
                for g, a in zip("ifgo", gates)
            ]
        )

    @staticmethod
    def weights(nn, p):
        norms = [(p[f"gain_{name}"], p[f"bias_{name}"]) for name in ("hi", "hf", "hg", "ho", "c")]
        return join(nn, p, "R_i R_f R_g R_o"), norms

    @staticmethod
    def step(nn, weights, a, states):
        R, norms = weights
        h, c = states
        gates = [
            before + nn.norm(gate, *norm)
            for before, gate, norm in zip(nn.split(a, 4), nn.split(nn.product(h, R), 4), norms)
        ]
        i, f, g, o = (
            nn.sigmoid(gates[0]),
            nn.sigmoid(gates[1]),
            nn.tanh(gates[2]),
            nn.sigmoid(gates[3]),
        )
        c = f * c + i * g
        h = o * nn.tanh(nn.norm(c, *norms[4]))
        return (h, c), h


class RHN:
    file, name, outputs = "rhn.rnn", "RHN", "y"

    @staticmethod
    def shapes(H):
        layers = {name: (RHN_DEPTH, H, H) for name in ("R_n", "R_g")}
        return matrices("W_n W_g", H) | layers | {name: (RHN_DEPTH, H) for name in ("b_n", "b_g")}

    @staticmethod
    def before(nn, p, x):
        return nn.product(x, join(nn, p, "W_n W_g")) + nn.concatenate([p["b_n"][0], p["b_g"][0]])

    @staticmethod
    def weights(nn, p):
        return [
            (nn.rows([R_n, R_g]), nn.concatenate([b_n, b_g]))
            for R_n, R_g, b_n, b_g in zip(p["R_n"], p["R_g"], p["b_n"], p["b_g"])
        ]

    @staticmethod
    def step(nn, weights, a, states):
        (s,) = states
        for layer, (R, b) in enumerate(weights):
            n, g = nn.split(nn.product(s, R) + (a if layer == 0 else b), 2)
            n, g = nn.tanh(n), nn.sigmoid(g)
            s = n * g + s * (1 - g)
        return (s,), s


CELLS = {cell.name: cell for cell in (GRUResetBefore, LayerNormLSTM, RHN)}
STATES = {"GRUResetBefore": 1, "LayerNormLSTM": 2, "RHN": 1}


def matrices(names, H):
    return {name: (H, H) for name in names.split()}


def join(nn, p, names):
    return nn.rows([p[name] for name in names.split()])


def vectors(names, H):
    return {name: (H,) for name in names.split()}


class Torch:
    """The operations that the cells are written in."""

    sigmoid, tanh = torch.sigmoid, torch.tanh

    @staticmethod
    def product(x, W):
        return functional.linear(x, W)

    @staticmethod
    def rows(arrays):
        return torch.cat(arrays)

    @staticmethod
    def concatenate(arrays):
        return torch.cat(arrays, -1)

    @staticmethod
    def split(x, parts):
        return x.chunk(parts, -1)

    @staticmethod
    def norm(x, gain, bias):
        return functional.layer_norm(x, x.shape[-1:], gain, bias)


class Jax:
    sigmoid, tanh = jax.nn.sigmoid, jnp.tanh

    @staticmethod
    def product(x, W):
        return x @ W.T

    @staticmethod
    def rows(arrays):
        return jnp.concatenate(arrays)

    @staticmethod
    def concatenate(arrays):
        return jnp.concatenate(arrays, -1)

    @staticmethod
    def split(x, parts):
        return jnp.split(x, parts, -1)

    @staticmethod
    def norm(x, gain, bias):
        wide = x.astype(jnp.float32)
        centred = wide - wide.mean(-1, keepdims=True)
        scaled = centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return scaled.astype(x.dtype) * gain + bias


def random_arrays(cell, H, steps, batch):
    random = np.random.default_rng(1)
    bound = 1 / np.sqrt(H)
    params = {
        name: random.uniform(-bound, bound, shape).astype(np.float32)
        for name, shape in cell.shapes(H).items()
    }
    return params, random.uniform(-1, 1, (steps, batch, H)).astype(np.float32)


def torch_call(cell, params, x, device, dtype, compiler):
    """All steps, and where the outputs will be."""
    p = {name: torch.tensor(value, device=device, dtype=dtype) for name, value in params.items()}
    x = torch.tensor(x, device=device, dtype=dtype)
    weights = cell.weights(Torch, p)

    @compiler
    def before(p, x):
        return cell.before(Torch, p, x)

    @compiler
    def step(a, states):
        return cell.step(Torch, weights, a, states)

    def call():
        a = before(p, x)
        states = tuple(torch.zeros_like(x[0]) for _ in range(STATES[cell.name]))
        outputs = []
        for t in range(len(x)):
            states, y = step(a[t], states)
            outputs.append(y)
        return torch.stack(outputs)

    return call


def jax_call(cell, params, x, dtype):
    p = {name: jnp.asarray(value, dtype) for name, value in params.items()}
    x = jnp.asarray(x, dtype)

    @jax.jit
    def call(p, x):
        weights = cell.weights(Jax, p)
        states = (jnp.zeros_like(x[0]),) * STATES[cell.name]

        def step(states, a):
            return cell.step(Jax, weights, a, states)

        return jax.lax.scan(step, states, cell.before(Jax, p, x))[1]

    return lambda: call(p, x)


def jax_gradients(cell, params, x, dtype):
    """Forward and backward of all steps: the gradients by all params and the input."""
    p = {name: jnp.asarray(value, dtype) for name, value in params.items()}
    x = jnp.asarray(x, dtype)
    by_output = jnp.asarray(np.random.default_rng(2).uniform(-1, 1, x.shape), dtype)

    @jax.jit
    def call(p, x, by_output):
        def run(p, x):
            weights = cell.weights(Jax, p)
            states = (jnp.zeros_like(x[0]),) * STATES[cell.name]

            def step(states, a):
                return cell.step(Jax, weights, a, states)

            return jax.lax.scan(step, states, cell.before(Jax, p, x))[1]

        y, backward = jax.vjp(run, p, x)
        return y, backward(by_output)

    return lambda: call(p, x, by_output)


def as_graph(call):
    """The call's launches as a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        result = call()
    return graph.replay, result


def time_torch(replay, runs):
    """Median seconds of a call."""
    times = []
    for _ in range(runs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def time_jax(call, runs):
    """Likewise; calls are queued, so that what the host does between them hides."""
    batch, times = 5, []
    for _ in range(max(runs // batch, 1)):
        begin = time.perf_counter()
        results = [call() for _ in range(batch)]
        jax.block_until_ready(results)
        times.append((time.perf_counter() - begin) / batch)
    return statistics.median(times)


def time_rnnc(arguments, cell):
    result = run_bench(
        arguments.rnnc,
        [f"examples/cells/{cell.file}", "--cell", cell.name],
        {"I": arguments.hidden, "H": arguments.hidden},
        {"device": "cuda", "dtype": "bf16", "batch": arguments.batch, "steps": arguments.steps}
        | {"runs": arguments.runs, "passes": arguments.passes}
        | ({"backward": True} if arguments.backward else {}),
    )
    return result["microseconds_per_step"]


def difference(ours, theirs):
    ours, theirs = (np.asarray(array, np.float32) for array in (ours, theirs))
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def compare_training(arguments, cell):
    params, x = random_arrays(cell, arguments.hidden, arguments.steps, arguments.batch)
    call = jax_gradients(cell, params, x, jnp.bfloat16)
    jax.block_until_ready(call())
    rounds = {"rnnc": [], "jax": []}
    for _ in range(arguments.rounds):
        rounds["rnnc"].append(time_rnnc(arguments, cell))
        rounds["jax"].append(time_jax(call, arguments.runs) / arguments.steps * 1e6)
    times = {name: statistics.median(values) for name, values in rounds.items()}
    return {
        "cell": cell.name,
        "microseconds_per_step": times,
        "ratio": times["jax"] / times["rnnc"],
        "rounds": rounds,
    }


def compare(arguments, cell):
    params, x = random_arrays(cell, arguments.hidden, arguments.steps, arguments.batch)
    with torch.no_grad():
        peers, results = {}, {}
        for mode in arguments.torch_modes:
            torch.compiler.reset()
            compiler = functools.partial(torch.compile, mode=mode)
            call = torch_call(cell, params, x, "cuda", torch.bfloat16, compiler)
            replay, result = as_graph(call)
            peers[f"torch {mode}"] = lambda replay=replay: time_torch(replay, arguments.runs)
            replay()
            results[f"torch {mode}"] = result.float().cpu().numpy()
        call = jax_call(cell, params, x, jnp.bfloat16)
        results["jax"] = np.asarray(call().astype(jnp.float32))
        peers["jax"] = lambda: time_jax(call, arguments.runs)
        rounds = {"rnnc": [], **{name: [] for name in peers}}
        for _ in range(arguments.rounds):
            rounds["rnnc"].append(time_rnnc(arguments, cell))
            for name, measure in peers.items():
                rounds[name].append(measure() / arguments.steps * 1e6)
    times = {name: statistics.median(values) for name, values in rounds.items()}
    fastest = min(time for name, time in times.items() if name != "rnnc")
    return {
        "cell": cell.name,
        "microseconds_per_step": times,
        "ratio": fastest / times["rnnc"],
        "peers_differ_by": max(difference(result, results["jax"]) for result in results.values()),
        "rounds": rounds,
    }


def check(arguments):
    """Both peers beside rnnc on a few steps, in f32 on the CPU."""
    for cell in CELLS.values():
        params, x = random_arrays(cell, 24, 5, 3)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            save_file(params, f"{folder}/weights.safetensors")
            np.save(f"{folder}/x.npy", x)
            files = ["--weights", f"{folder}/weights.safetensors", "--input", f"x={folder}/x.npy"]
            files += ["--output", f"{cell.outputs}={folder}/y.npy"]
            command = [arguments.rnnc, "run", f"examples/cells/{cell.file}", "--cell", cell.name]
            subprocess.run([*command, *files], check=True)
            ours = np.load(f"{folder}/y.npy")
            theirs = torch_call(cell, params, x, "cpu", torch.float32, lambda function: function)()
        apart = {
            "torch": difference(ours, theirs),
            "jax": difference(ours, jax_call(cell, params, x, jnp.float32)()),
        }
        print(f"{cell.name}: " + ", ".join(f"{name} {value:.1e}" for name, value in apart.items()))
        if max(apart.values()) > 1e-5:
            raise SystemExit(f"{cell.name}: the peers compute something else")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rnnc", default="build/default/tools/rnnc", help="the program rnnc")
    parser.add_argument("--passes", default="all", help="rnnc's")
    parser.add_argument("--cell", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=256)
    # max-autotune's Triton kernels have read memory that is not theirs (torch 2.11).
    parser.add_argument("--torch-modes", nargs="+", default=["default"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=50, help="calls of each turn")
    parser.add_argument("--backward", action="store_true", help="forward and backward")
    parser.add_argument("--check", action="store_true", help="compare results instead, on the CPU")
    add_output_argument(parser, "cells_peers.json")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.check:
        jax.config.update("jax_platforms", "cpu")
        check(arguments)
        return
    header = {
        "machine": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "jax": jax.__version__,
        "batch": arguments.batch,
        "hidden": arguments.hidden,
        "steps": arguments.steps,
        "dtype": "bf16",
        "passes": arguments.passes,
        "backward": arguments.backward,
    }
    print(", ".join(f"{name} {value}" for name, value in header.items()))
    rows = []
    for name in arguments.cell:
        row = (compare_training if arguments.backward else compare)(arguments, CELLS[name])
        rows.append(row)
        times = ", ".join(f"{who} {us:.2f}" for who, us in row["microseconds_per_step"].items())
        print(f"{name}: {times} µs per step; faster peer / rnnc {row['ratio']:.2f}", flush=True)
    write_result(arguments.json, header | {"rows": rows})


if __name__ == "__main__":
    main()
