"""Cells that scan, look back or keep time, in float64 from their papers' equations.

Functions are as in cells.py and cells_gated.py.
"""

import torch
from torch import exp, log, sigmoid, tanh
from torch.nn.functional import logsigmoid, silu, softplus

from cells import linear, over_time
from cells_gated import matrix, one_state


def vectors(data, names, **where):
    return (data.param(name, data.hidden, **where) for name in names.split())


def SRU(data):
    """Lei et al. 2018."""
    H = data.hidden
    v_f, v_r, b_f, b_r = vectors(data, "v_f v_r b_f b_r")

    def step(x, _, c):
        f = sigmoid(matrix(data, "W_f", x) + v_f * c + b_f)
        r = sigmoid(matrix(data, "W_r", x) + v_r * c + b_r)
        c = f * c + (1 - f) * matrix(data, "W", x)
        return r * c + (1 - r) * x, c

    c = data.state("c", H)
    y, _, c = over_time(step, data.input("x", H), c, c)
    return {"h": y}, {"c": c}


def QRNN(data):
    """Bradbury et al. 2017, width 2, as convolutions over the whole sequence."""
    H, I = data.hidden, data.inputs
    first = data.state("x@1", I)
    padded = torch.cat([first[None], data.x])

    def convolution(gate):
        kernel = torch.stack([data.param(f"V_{gate}", H, I), data.param(f"W_{gate}", H, I)], dim=2)
        return torch.conv1d(padded.permute(1, 2, 0), kernel).permute(2, 0, 1)

    gates = torch.stack([tanh(convolution("z")), sigmoid(convolution("f"))], dim=1)
    c, last = over_time(
        lambda zf, c: (zf[1] * c + (1 - zf[1]) * zf[0],), gates, data.state("c", H)
    )
    return {"h": sigmoid(convolution("o")) * c}, {"c": last, "x@1": data.x[-1]}


def MinGRULog(data):
    """Feng et al. 2024, appendix B."""

    def step(x, h):
        v = linear(data, "n", x)
        z = sigmoid(linear(data, "z", x))
        return h - z * h + z * torch.where(v >= 0, v + 0.5, v.sigmoid())

    return one_state(data, step)


def TRNN(data):
    """Balduzzi & Ghifary 2016."""
    (b,) = vectors(data, "b")

    def step(x, h):
        f = sigmoid(matrix(data, "V", x) + b)
        return f * h + (1 - f) * matrix(data, "W", x)

    return one_state(data, step)


def sLSTM(data):
    """Beck et al. 2024; the heads' matrices are put on the diagonal of a dense one."""
    H = data.hidden
    N = data.dim("N", 3 if H % 3 == 0 else 1)
    R = {g: torch.block_diag(*data.param(f"R_{g}", N, H // N, H // N)) for g in "ifzo"}

    def step(x, h, c, n, m):
        i, f, z, o = (linear(data, gate, x) + h @ R[gate].T for gate in "ifzo")
        forget = log(sigmoid(f)) + m
        m = torch.maximum(forget, i)
        c = exp(forget - m) * c + exp(i - m) * tanh(z)
        n = exp(forget - m) * n + exp(i - m)
        return sigmoid(o) * c / n, c, n, m

    states = (data.state("h", H), data.state("c", H), data.state("n", H, around=2))
    y, h, c, n, m = over_time(step, data.x, *states, data.state("m", H))
    return {"h": y}, {"h": h, "c": c, "n": n, "m": m}


def RGLRU(data):
    """De et al. 2024."""
    H = data.hidden
    b_a, b_x, Lambda = vectors(data, "b_a b_x Lambda")

    def step(x, h):
        a = exp(-softplus(Lambda)) ** (8 * sigmoid(matrix(data, "W_a", x) + b_a))
        return a * h + torch.sqrt(1 - a**2) * sigmoid(matrix(data, "W_x", x) + b_x) * x

    y, h = over_time(lambda x, h: (step(x, h),), data.input("x", H), data.state("h", H))
    return {"h": y}, {"h": h}


def HGRN(data):
    """Qin et al. 2023."""
    (gamma,) = vectors(data, "gamma", around=0.5)

    def step(x, _, h):
        forget = gamma + (1 - gamma) * sigmoid(linear(data, "f", x))
        h = forget * h + (1 - forget) * silu(linear(data, "c", x))
        return sigmoid(linear(data, "g", x)) * h, h

    h = data.state("h", data.hidden)
    y, _, h = over_time(step, data.x, h, h)
    return {"y": y}, {"h": h}


def RWKV4(data):
    """Peng et al. 2023: the sums as they stand in the paper, without a running maximum."""
    H, I = data.hidden, data.inputs
    w, u = data.param("w", H, around=1), data.param("u", H)
    before = torch.cat([data.state("x@1", I)[None], data.x[:-1]])

    def mixed(name):
        mu = data.param(f"mu_{name}", I, around=0.5)
        return matrix(data, f"W_{name}", mu * data.x + (1 - mu) * before)

    r, k, v = mixed("r"), mixed("k"), mixed("v")
    p = data.state("p", H, declared=-1e30)
    top, bottom = data.state("a", H) * exp(p), data.state("b", H, around=2) * exp(p)
    outputs = []
    for t in range(data.steps):
        wkv = (top + exp(u + k[t]) * v[t]) / (bottom + exp(u + k[t]))
        outputs.append(matrix(data, "W_o", sigmoid(r[t]) * wkv, I))
        top, bottom = exp(-w) * top + exp(k[t]) * v[t], exp(-w) * bottom + exp(k[t])
        p = torch.maximum(p - w, k[t])
    finals = {"a": top / exp(p), "b": bottom / exp(p), "p": p, "x@1": data.x[-1]}
    return {"y": torch.stack(outputs)}, finals


def FastGRNN(data):
    """Kusupati et al. 2018."""
    H, I, R = data.hidden, data.inputs, data.dim("R", data.hidden // 3 + 1)
    W = data.param("W_1", H, R) @ data.param("W_2", R, I)
    U = data.param("U_1", H, R) @ data.param("U_2", R, H)
    zeta, nu = sigmoid(data.param("zeta")), sigmoid(data.param("nu"))
    b_z, b_n = vectors(data, "b_z b_n")

    def step(x, h):
        q = x @ W.T + h @ U.T
        z = sigmoid(q + b_z)
        return (zeta * (1 - z) + nu) * tanh(q + b_n) + z * h

    return one_state(data, step)


def LMU(data):
    """Voelker et al. 2019."""
    H, I, D = data.hidden, data.inputs, data.dim("D", data.hidden // 2 + 2)
    e = torch.cat([data.param("e_x", I), data.param("e_h", H), data.param("e_m", D)])
    A, B = data.param("A", D, D), data.param("B", D)

    def step(x, h, m):
        m = m @ A.T + (torch.cat([x, h, m], dim=1) @ e)[:, None] * B
        return tanh(matrix(data, "W_x", x) + matrix(data, "W_h", h) + matrix(data, "W_m", m)), m

    y, h, m = over_time(step, data.x, data.state("h", H), data.state("m", D))
    return {"h": y}, {"h": h, "m": m}


def CfC(data):
    """Hasani et al. 2022."""
    H, I, U = data.hidden, data.inputs, data.dim("U", data.hidden + 2)
    x = torch.cat([data.x, data.input("dt", around=1)[:, :, None]], dim=2)

    def head(name, v):
        return matrix(data, f"W_{name}", v) + data.param(f"b_{name}", H)

    def step(x, h):
        x, dt = x[:, :I], x[:, I:]
        v = matrix(data, "W", torch.cat([x, h], dim=1), U) + data.param("b", U)
        v = 1.7159 * tanh(0.666 * v)
        s = sigmoid(head("a", v) * dt + head("t", v))
        return (torch.lerp(tanh(head("f", v)), tanh(head("g", v)), s),)

    y, h = over_time(step, x, data.state("h", H))
    return {"h": y}, {"h": h}


def bistable(data, gate):
    def step(x, h):
        a = 1 + tanh(matrix(data, "U_a", x) + gate("a", h))
        c = sigmoid(matrix(data, "U_c", x) + gate("c", h))
        return c * h + (1 - c) * tanh(matrix(data, "U", x) + a * h)

    return one_state(data, step)


def BRC(data):
    """Vecoven et al. 2021."""
    return bistable(data, lambda name, h: data.param(f"w_{name}", data.hidden) * h)


def nBRC(data):
    """Vecoven et al. 2021."""
    return bistable(data, lambda name, h: matrix(data, f"W_{name}", h))


def PhasedLSTM(data):
    """Neil et al. 2016, with peepholes."""
    H, I = data.hidden, data.inputs
    s, tau, r_on = data.param("s", H), data.param("tau", H, around=3), data.param("r_on", H, around=1)
    x = torch.cat([data.x, data.input("time", around=2)[:, :, None]], dim=2)

    def gate(name, x, h):
        return linear(data, name, x) + matrix(data, f"R_{name}", h)

    def step(x, h, c):
        x, time = x[:, :I], x[:, I:]
        phase = torch.remainder(time - s, tau) / tau
        k = torch.where(phase < r_on, 2 - 2 * phase / r_on, 1e-3 * phase)
        k = torch.where(phase < r_on / 2, 2 * phase / r_on, k)
        i = sigmoid(gate("i", x, h) + data.param("p_i", H) * c)
        f = sigmoid(gate("f", x, h) + data.param("p_f", H) * c)
        proposed = f * c + i * tanh(gate("g", x, h))
        o = sigmoid(gate("o", x, h) + data.param("p_o", H) * proposed)
        return torch.lerp(h, o * tanh(proposed), k), torch.lerp(c, proposed, k)

    y, h, c = over_time(step, x, data.state("h", H), data.state("c", H))
    return {"h": y}, {"h": h, "c": c}


def LRU(data):
    """Orvieto et al. 2023, in complex numbers."""
    H, I = data.hidden, data.inputs
    nu, theta = vectors(data, "nu theta")
    eigenvalues = exp(torch.complex(-exp(nu), exp(theta)))
    B, C = (
        torch.complex(data.param(f"{name}_re", *shape), data.param(f"{name}_im", *shape))
        for name, shape in (("B", (H, I)), ("C", (I, H)))
    )
    gamma = torch.sqrt(1 - eigenvalues.abs() ** 2)

    def step(x, _, h):
        h = eigenvalues * h + gamma * (x.to(B.dtype) @ B.T)
        return (h @ C.T).real + data.param("D", I) * x, h

    first = torch.complex(data.state("u", H), data.state("v", H))
    y, _, h = over_time(step, data.x, data.x[0], first)
    return {"y": y}, {"u": h.real, "v": h.imag}


def S4D(data):
    """Gu et al. 2022: zero-order hold, B = 1."""
    H = data.hidden
    N = data.dim("N", 4)
    A = torch.complex(-exp(data.param("log_A", N, H)), data.param("omega", N, H))
    C = torch.complex(data.param("C_re", N, H), data.param("C_im", N, H))
    log_dt, D = vectors(data, "log_dt D")
    held = exp(exp(log_dt) * A)
    B = (held - 1) / A

    def step(x, _, h):
        h = held * h + B * x[:, None]
        return 2 * (C * h).sum(dim=1).real + D * x, h

    x = data.input("x", H)
    first = torch.complex(data.state("u", N, H), data.state("v", N, H))
    y, _, h = over_time(step, x, x[0], first)
    return {"y": y}, {"u": h.real, "v": h.imag}


CELLS = [
    SRU, QRNN, MinGRULog, TRNN, sLSTM, RGLRU, HGRN, RWKV4, FastGRNN, LMU, CfC, BRC, nBRC, PhasedLSTM,
    LRU, S4D,
]  # fmt: skip
LARGE = [TRNN, RGLRU]  # those with a case of hidden size 1000
