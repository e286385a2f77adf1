"""Gated cells and cells from differential equations, in float64 from their papers' equations.

Functions are as in cells.py. A gate's product W x + R h + b is written `affine(data, gate, x, h)`,
`matrix(data, …)` is a product alone.
"""

import torch
from torch import relu, sigmoid, tanh

from cells import affine, linear, over_time


def matrix(data, name, v, rows=None):
    """The param `name`, a matrix, times v."""
    return v @ data.param(name, rows or data.hidden, v.shape[-1]).T


def one_state(data, step, name="h"):
    """Runs state' = step(x, state), which is the output too."""
    y, last = over_time(lambda x, h: (step(x, h),), data.x, data.state(name, data.hidden))
    return {name: y}, {name: last}


def two_states(data, step, output, other):
    """Runs output', other' = step(x, output, other)."""
    H = data.hidden
    y, a, b = over_time(step, data.x, data.state(output, H), data.state(other, H))
    return {output: y}, {output: a, other: b}


def Jordan(data):
    """Jordan 1986, without the loops of the state units onto themselves."""
    H, O = data.hidden, data.dim("O", data.hidden // 2 + 1)

    def step(x, y):
        h = sigmoid(affine(data, "h", x, y))
        return (sigmoid(matrix(data, "W_y", h, O) + data.param("b_y", O)),)

    y, last = over_time(step, data.x, data.state("y", O))
    return {"y": y}, {"y": last}


def odyssey(data, without):
    """Greff et al. 2015: the vanilla LSTM, with one thing removed."""

    def gate(name, x, h, c):
        return sigmoid(affine(data, name, x, h) + data.param(f"p_{name}", data.hidden) * c)

    def step(x, h, c):
        i = 1 if without == "input gate" else gate("i", x, h, c)
        if without == "coupled":
            f = 1 - i
        else:
            f = 1 if without == "forget gate" else gate("f", x, h, c)
        g = affine(data, "g", x, h)
        c = f * c + i * (g if without == "input activation" else tanh(g))
        o = 1 if without == "output gate" else gate("o", x, h, c)
        return o * (c if without == "output activation" else tanh(c)), c

    return two_states(data, step, "h", "c")


def CIFG(data):
    return odyssey(data, "coupled")


def NIG(data):
    return odyssey(data, "input gate")


def NFG(data):
    return odyssey(data, "forget gate")


def NOG(data):
    return odyssey(data, "output gate")


def NIAF(data):
    return odyssey(data, "input activation")


def NOAF(data):
    return odyssey(data, "output activation")


def MGU(data):
    """Zhou et al. 2016."""

    def step(x, h):
        f = sigmoid(affine(data, "f", x, h))
        return (1 - f) * h + f * tanh(affine(data, "n", x, f * h))

    return one_state(data, step)


def UGRNN(data):
    """Collins, Sohl-Dickstein & Sussillo 2017."""

    def step(x, h):
        g = sigmoid(affine(data, "g", x, h))
        return g * h + (1 - g) * tanh(affine(data, "c", x, h))

    return one_state(data, step)


def LiGRU(data):
    """Ravanelli et al. 2018, without batch normalization."""

    def step(x, h):
        z = sigmoid(affine(data, "z", x, h))
        return z * h + (1 - z) * relu(affine(data, "n", x, h))

    return one_state(data, step)


def mutant(data, inputs, z_of, r_of, from_x):
    """Jozefowicz, Zaremba & Sutskever 2015: what the three units have in common."""
    H = data.hidden

    def step(x, h):
        z, r = sigmoid(z_of(x, h)), sigmoid(r_of(x, h))
        n = tanh(matrix(data, "R_h", r * h) + from_x(x) + data.param("b_h", H))
        return (n * z + h * (1 - z),)

    y, last = over_time(step, data.input("x", inputs), data.state("h", H))
    return {"h": y}, {"h": last}


def MUT1(data):
    def r(x, h):
        return affine(data, "r", x, h)

    return mutant(data, data.hidden, lambda x, h: linear(data, "z", x), r, tanh)


def MUT2(data):
    def z(x, h):
        return affine(data, "z", x, h)

    def r(x, h):
        return x + matrix(data, "R_r", h) + data.param("b_r", data.hidden)

    return mutant(data, data.hidden, z, r, lambda x: matrix(data, "W_h", x))


def MUT3(data):
    def z(x, h):
        return affine(data, "z", x, tanh(h))

    def r(x, h):
        return affine(data, "r", x, h)

    return mutant(data, data.inputs, z, r, lambda x: matrix(data, "W_h", x))


def SCRN(data):
    """Mikolov et al. 2014."""
    H, S, O = data.hidden, data.dim("S", data.hidden // 3 + 1), data.dim("O", 5)

    def step(x, y, h, s):
        s = 0.05 * matrix(data, "B", x, S) + 0.95 * s
        h = sigmoid(matrix(data, "P", s) + matrix(data, "A", x) + matrix(data, "R", h))
        y = torch.softmax(matrix(data, "U", h, O) + matrix(data, "V", s, O), -1)
        return y, h, s

    y, _, h, s = over_time(step, data.x, None, data.state("h", H), data.state("s", S))
    return {"y": y}, {"h": h, "s": s}


def JANET(data):
    """Van der Westhuizen & Lasenby 2018, with beta = 1."""

    def step(x, h):
        s = affine(data, "f", x, h)
        return sigmoid(s) * h + (1 - sigmoid(s - 1)) * tanh(affine(data, "c", x, h))

    return one_state(data, step)


def ATR(data):
    """Zhang et al. 2018."""

    def step(x, h):
        p, q = matrix(data, "W", x), matrix(data, "R", h)
        return sigmoid(p + q) * p + sigmoid(p - q) * h

    return one_state(data, step)


def RAN(data):
    """Lee, Levy & Zettlemoyer 2017."""

    def step(x, h, c):
        i, f = sigmoid(affine(data, "i", x, h)), sigmoid(affine(data, "f", x, h))
        c = i * matrix(data, "W_c", x) + f * c
        return tanh(c), c

    return two_states(data, step, "h", "c")


def CFN(data):
    """Laurent & von Brecht 2016."""

    def step(x, h):
        theta, eta = sigmoid(affine(data, "theta", x, h)), sigmoid(affine(data, "eta", x, h))
        return theta * tanh(h) + eta * tanh(matrix(data, "W", x))

    return one_state(data, step)


def NASCell(data):
    """Zoph & Le 2017, appendix; the tree is that of TensorFlow's contrib.rnn.NASCell."""
    H = data.hidden
    W, R = data.param("W", 8, H, data.inputs), data.param("R", 8, H, H)

    def step(x, h, c):
        p, q = [x @ w.T for w in W], [h @ r.T for r in R]
        first = [f(p[k] + q[k]) for k, f in {0: sigmoid, 1: relu, 2: sigmoid}.items()]
        first += [relu(p[3] * q[3])]
        first += [f(p[k] + q[k]) for k, f in {4: tanh, 5: sigmoid, 6: tanh, 7: sigmoid}.items()]
        second = [
            tanh(first[0] * first[1]),
            tanh(first[2] + first[3]),
            tanh(first[4] * first[5]),
            sigmoid(first[6] + first[7]),
        ]
        c = tanh(second[0] + c) * second[1]
        return tanh(c * tanh(second[2] + second[3])), c

    return two_states(data, step, "h", "c")


def MultiplicativeLSTM(data):
    """Krause et al. 2016, with biases."""

    def step(x, h, c):
        m = matrix(data, "W_m", x) * matrix(data, "R_m", h)
        i, f, g, o = (affine(data, gate, x, m) for gate in "ifgo")
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        return sigmoid(o) * tanh(c), c

    return two_states(data, step, "h", "c")


def RHN(data):
    """Zilly et al. 2017, with c = 1 - t."""
    H, L = data.hidden, data.dim("L", 3)
    R_n, R_g = data.param("R_n", L, H, H), data.param("R_g", L, H, H)
    b_n, b_g = data.param("b_n", L, H), data.param("b_g", L, H)

    def step(x, s):
        for l in range(L):
            n, g = s @ R_n[l].T + b_n[l], s @ R_g[l].T + b_g[l]
            if l == 0:
                n, g = n + matrix(data, "W_n", x), g + matrix(data, "W_g", x)
            n, g = tanh(n), sigmoid(g)
            s = n * g + s * (1 - g)
        return s

    return one_state(data, step, "y")


def LEM(data):
    """Rusch, Mishra, Erichson & Mahoney 2022."""
    dt = data.param("dt", around=0.5)

    def step(x, y, z):
        d1, d2 = (dt * sigmoid(affine(data, gate, x, y)) for gate in "12")
        z = (1 - d1) * z + d1 * tanh(affine(data, "z", x, y))
        return (1 - d2) * y + d2 * tanh(affine(data, "y", x, z)), z

    return two_states(data, step, "y", "z")


def coRNN(data):
    """Rusch & Mishra 2021, with n̄ = n - 1."""
    dt, gamma, epsilon = (data.param(name, around=0.5) for name in ("dt", "gamma", "epsilon"))

    def step(x, y, z):
        pre = matrix(data, "W", x) + matrix(data, "R_y", y) + matrix(data, "R_z", z)
        pre = pre + data.param("b", data.hidden)
        z = z + dt * tanh(pre) - dt * gamma * y - dt * epsilon * z
        return y + dt * z, z

    return two_states(data, step, "y", "z")


def UnICORNN(data):
    """Rusch & Mishra 2021, one layer."""
    w, c, b = (data.param(name, data.hidden) for name in "wcb")
    dt, alpha = data.param("dt", around=0.5), data.param("alpha", around=0.5)

    def step(x, y, z):
        z = z - dt * sigmoid(c) * (tanh(w * y + matrix(data, "W", x) + b) + alpha * y)
        return y + dt * sigmoid(c) * z, z

    return two_states(data, step, "y", "z")


def AntisymmetricRNN(data):
    """Chang et al. 2019."""
    H = data.hidden
    R, gamma = data.param("R", H, H), data.param("gamma", around=0.5)
    epsilon = data.param("epsilon", around=0.5)
    A = R - R.T - gamma * torch.eye(H, dtype=torch.float64)

    def step(x, h):
        return h + epsilon * tanh(matrix(data, "W", x) + h @ A.T + data.param("b", H))

    return one_state(data, step)


def LipschitzRNN(data):
    """Erichson et al. 2021, by the forward Euler scheme."""
    H, epsilon = data.hidden, data.param("epsilon", around=0.25)

    def hidden_matrix(name):
        M = data.param(f"M_{name}", H, H)
        beta, gamma = data.param(f"beta_{name}", around=0.75), data.param(f"gamma_{name}", around=1)
        return (1 - beta) * (M + M.T) + beta * (M - M.T) - gamma * torch.eye(H, dtype=torch.float64)

    A, R = hidden_matrix("A"), hidden_matrix("R")

    def step(x, h):
        z = h @ R.T + matrix(data, "W", x) + data.param("b", H)
        return h + epsilon * (h @ A.T) + epsilon * tanh(z)

    return one_state(data, step)


def LTC(data):
    """Hasani et al. 2021: the fused solver."""
    H, L = data.hidden, data.dim("L", 6)
    A, tau = data.param("A", H), torch.exp(data.param("log_tau", H))
    x = torch.cat([data.x, data.input("dt", around=1)[:, :, None]], dim=2)

    def step(x, h):
        x, dt = x[:, :-1], x[:, -1:] / L
        for _ in range(L):
            f = sigmoid(affine(data, "f", x, h))
            h = (h + dt * f * A) / (1 + dt * (1 / tau + f))
        return (h,)

    y, last = over_time(step, x, data.state("h", H))
    return {"h": y}, {"h": last}


class Binarize(torch.autograd.Function):
    """1 from 0.5 on, else 0, and the gradient goes straight through."""

    @staticmethod
    def forward(_, v):
        return (v >= 0.5).to(v.dtype)

    @staticmethod
    def backward(_, gradient):
        return gradient


def SkipGRU(data):
    """Campos et al. 2018, of a GRU. With this b_p no p comes near 0.5, where rounding would decide."""
    H = data.hidden
    h, p = data.state("h", H), data.state("p", declared=1)
    b_p = data.param("b_p", around=-0.3)
    hidden, updates = [], []
    for x in data.x:
        u = Binarize.apply(p)
        r, z = (sigmoid(affine(data, gate, x, h)) for gate in "rz")
        n = tanh(linear(data, "n", x) + r * (matrix(data, "R_n", h) + data.param("c_n", H)))
        h = torch.lerp(h, torch.lerp(n, h, z), u[:, None])
        d = sigmoid(matrix(data, "W_p", h, 1)[:, 0] + b_p)
        p = torch.lerp(p + torch.minimum(d, 1 - p), d, u)
        hidden.append(h)
        updates.append(u)
    return {"h": torch.stack(hidden), "u": torch.stack(updates)}, {"h": h, "p": p}


def ClockworkRNN(data):
    """Koutník et al. 2014: R is block upper triangular, and a module rests between its steps."""
    H = data.hidden
    modules = data.dim("G", next(count for count in (4, 3, 2, 1) if H % count == 0))
    module = torch.arange(H) * modules // H
    R = data.param("R", H, H) * (module[:, None] <= module[None, :])

    def step(x, h, number):
        runs = torch.remainder(number[:, None], 2.0**module) == 0
        new = tanh(matrix(data, "W", x) + h @ R.T + data.param("b", H))
        return torch.where(runs, new, h), number + 1

    y, h, number = over_time(step, data.x, data.state("h", H), data.state("t@1"))
    return {"h": y}, {"h": h, "t@1": number}


CELLS = [
    Jordan, CIFG, NIG, NFG, NOG, NIAF, NOAF, MGU, UGRNN, LiGRU, MUT1, MUT2, MUT3, SCRN, JANET, ATR,
    RAN, CFN, NASCell, MultiplicativeLSTM, RHN, LEM, coRNN, UnICORNN, AntisymmetricRNN,
    LipschitzRNN, ClockworkRNN, LTC, SkipGRU,
]  # fmt: skip
LARGE = [JANET, ATR]  # those with a case of hidden size 1000
