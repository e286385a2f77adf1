"""The step as PyTorch operations beside what the library computes."""

import copy
import itertools
import re
import unittest
from pathlib import Path

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

import rnnc.torch
from rnnc.program import graph_of
from rnnc.torch import calls
from rnnc.torch.programs import source_of
from rnnc.torch.eager import run
from rnnc.torch.reference import reference
from rnnc.torch.step_graph import parse

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SHIPPED = sorted([*EXAMPLES.glob("cells/*.rnn"), *EXAMPLES.glob("networks/*.rnn")])
DIMS = {"D": 3, "F": 3, "G": 2, "H": 4, "I": 3, "L": 2, "N": 2, "O": 2, "P": 2, "R": 2, "S": 3, "U": 3}
STEPS, BATCH = 6, 4
LENGTHS = torch.tensor([6, 0, 3, 1])

# Every op of the language, and what a network does with time.
CELLS = {
    "Scalars": """cell Scalars[H](x: [H], s: []) -> (y, z) {
  state h: [H]
  param w, u: [H]
  param k: []
  v = w * x[t] + 0.3 * h[t-1]
  p = 1 + v * v
  a = sigmoid(v) + tanh(v) + relu(v) + exp(-p) + log(p) + log1p(p) + expm1(v) + sqrt(p) + rsqrt(p)
  b = abs(v) + sign(v) * v + floor(4 * v) * v + round(4 * v) * v
  b = b + stop_gradient(v) * u + softplus(9 * v)
  c = silu(v) + gelu(v) + elu(v) + erf(v) + sin(v) + cos(v) + min(v, u) + max(v, s[t]) + pow(p, u)
  d = mod(v, 2 + u * u) + clamp(v, -0.5 * p, k) + clamp(u, v, 0.5) - v / p + pow(v, 3) + pow(v, 2)
  e = (v < u) * v + (v <= u) * u + (v > k) * w + (v >= s[t]) * v + (v == u) + (v != u) * u
  h[t] = tanh(0.1 * (a + b + c + d + e))
  y = where(v > 0, log(where(v > 0, v, 1)), u) + h[t]
  z = sum(v) + mean(v) + var(v) + min(v) + max(v) + dot(u, v)
}
""",
    "Shapes": """cell Shapes[H, N = 2](x: [H]) -> (y, z, m, fixed) {
  state h: [H] = range(H) / 10
  state s[N]: [H] = 0.5
  state g: [H] = tanh(g0)
  param g0: [H]
  param W: [H + 3, H + 4]
  param R[N]: [H, H] blocks 2
  param A: [H, H]
  S = A @ transpose(A) - 0.5 * eye(H)
  pieces = concat(zeros(0), x[t], 0.5, mean(h[t-1]), dot(A[1], h[t-1]), 1)
  m = tanh(W @ pieces)
  h[t] = m[-H:] * m[0] + S @ h[t-1] + x[t] @ A + [1, -2, 3, 4][2] * h[t-3] + x[t-2]
  last = h[t]
  for l in 0..N {
    s[l][t] = tanh(R[l] @ s[l][t-1] + last @ R[l])
    last = s[l][t] + s[l][t-2]
  }
  g[t] = 0.5 * g[t-1] + last[0]
  y = g[t] * (range(H) + 1) + last * dot([1, 2], h[t-1][1:3]) + min(A) + var(h[t-1][1:3])
  z[0] = max(A[0])
  z[1] = sum(g[t])
  fixed = range(H)
}
""",
    "Both": """cell Conv[I, H](x: [I]) -> (h, r) {
  state h: [H] = h0
  param h0: [H]
  param W, V, U: [H, I]
  r = sigmoid(W @ x[t])
  far = 0.2 * h[t-9] + 0.1 * h[t-2] + 0.1 * r[t-2] - 0.3 * r[t-12]
  h[t] = tanh(V @ x[t-1] + U @ x[t-2]) * r + 0.5 * h[t-1] + far - 0.1 * far[t-1]
}
network Both[F, H](x: [F]) -> (y, r) {
  param scale: [2 * H]
  (a, b) = Conv[H = H](x)
  (c, r) = reverse Conv[H = H](x)
  v = concat(a, c) * scale
  (d, e) = reverse Conv[H = H](v)
  (f, g) = Conv[H = H](d)
  y = f + e * reverse Conv2[H = H](f)
}
cell Conv2[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  h[t] = tanh(W @ x[t] + h[t-1])
}
""",
}


def shipped(path):
    """A cell of a file, with params of random numbers."""
    text = path.read_text()
    name, names = re.findall(r"^(?:cell|network) (\w+)\[(.*?)\]", text, re.M)[-1]
    return cell_of(path, name, re.findall(r"[A-Z]\w*", names))


def written(name):
    names = re.search(rf"(?:cell|network) {name}\[(.*?)\]", CELLS[name])[1]
    return cell_of(CELLS[name], name, re.findall(r"[A-Z]\w*", names))


def cell_of(source, name, dims, **options):
    torch.manual_seed(1)
    cell = rnnc.torch.Cell(
        source, name, dtype=torch.float64, **options, **{dim: DIMS[dim] for dim in dims}
    )
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.normal_(0, 0.6)
    return cell


def inputs_of(cell, *leading):
    return [torch.randn(*leading, *x.shape, dtype=torch.float64) for x in cell.source.inputs]


def states_of(cell, batch):
    return [torch.randn(batch, *s.shape, dtype=torch.float64) for s in cell.source.states]


def resets():
    reset = torch.zeros(STEPS, BATCH)
    for t, b in ((0, 0), (2, 0), (3, 0), (1, 2), (4, 2), (5, 3)):
        reset[t, b] = 1
    return reset


def flat(results):
    if isinstance(results, torch.Tensor):
        return [results]
    return [tensor for part in results for tensor in flat(part)]


class Reference(unittest.TestCase):
    def close(self, ours, theirs, what, limit=1e-9):
        self.assertEqual(ours.shape, theirs.shape, what)
        self.assertEqual(ours.dtype, theirs.dtype, what)
        worst = (ours - theirs).abs().max() if ours.numel() else torch.zeros(())
        scale = theirs.abs().max().clamp(min=1e-3) if ours.numel() else 1
        self.assertTrue(torch.isfinite(theirs).all(), what)
        self.assertLessEqual(float((worst / scale).detach()), limit, what)

    def compare(self, cell, inputs, states=None, **more):
        """Results, and the gradients of all of them by all that there is."""
        found = []
        for module in (reference(cell), cell):
            given = [x.clone().requires_grad_() for x in inputs]
            begin = states and {n: s.clone().requires_grad_() for n, s in states.items()}
            results = module(*given, states=begin, **more)
            torch.manual_seed(2)
            loss = sum((r * torch.randn(r.shape, dtype=r.dtype)).sum() for r in flat(results))
            by = [*given, *(begin or {}).values(), *cell.parameters()]
            gradients = torch.autograd.grad(loss, by, allow_unused=True, materialize_grads=True)
            found.append((results, gradients))
        self.assertEqual(found[0][0][1]._fields, found[1][0][1]._fields)
        for number, pair in enumerate(zip(*(flat(results) for results, _ in found))):
            self.close(*pair, f"result {number}")
        for number, pair in enumerate(zip(*(gradients for _, gradients in found))):
            self.close(*pair, f"gradient {number}")

    def compare_all(self, cell):
        inputs = inputs_of(cell, STEPS, BATCH)
        states = dict(zip([s.name for s in cell.source.states], states_of(cell, BATCH)))
        own = {n: s for n, s in states.items() if "@" not in n}
        with self.subTest("plain"):
            self.compare(cell, inputs)
        with self.subTest("states"):
            self.compare(cell, inputs, states)
        with self.subTest("own states, reset"):
            self.compare(cell, inputs, own, reset=resets())
        with self.subTest("lengths"):
            self.compare(cell, inputs, lengths=LENGTHS)
        with self.subTest("states, lengths, reset"):
            self.compare(cell, inputs, states, lengths=LENGTHS, reset=resets())

    def test_shipped_cells(self):
        for path in SHIPPED:
            with self.subTest(path.stem):
                self.compare_all(shipped(path))

    def test_language(self):
        for name in CELLS:
            with self.subTest(name):
                self.compare_all(written(name))

    def test_kinks_and_equals(self):
        """What is equal shares, and 0 is where `abs` and `relu` bend."""
        text = """cell Kinks[H](x: [H], y: [H]) -> (a, b, c, d) {
  param w: [H]
  u = w * x[t]
  v = w * y[t]
  a = min(u, v) + 2 * max(u, v) + 3 * clamp(u, v, 1) + 5 * clamp(v, -1, u) + 7 * clamp(0, u, v)
  b = relu(u) + 2 * abs(v) + 3 * elu(u) + 5 * sign(u) + 7 * floor(u) + 9 * where(u, v, u)
  c = pow(u, 2) + pow(abs(u), 1) + pow(1 + abs(u), v) + mod(u, 2.5)
  d = min(u) + 2 * max(v)
}
"""
        cell = cell_of(text, "Kinks", "H")
        with torch.no_grad():
            cell.w.fill_(1)
        whole = torch.randint(-1, 2, (2, 20, 3, DIMS["H"]), dtype=torch.float64)
        self.compare(cell, list(whole))

    def test_nan_goes_through(self):
        names = "sigmoid tanh relu exp log sqrt abs sign floor round softplus silu gelu elu erf"
        lines = [f"  y[{i}] = {name}(x[t])\n" for i, name in enumerate(names.split())]
        for more in ("min(x[t], k)", "max(k, x[t])", "pow(x[t], k)", "pow(k, x[t])", "x[t] == k"):
            lines.append(f"  y[{len(lines)}] = {more}\n")
        for more in ("clamp(x[t], 0, 1)", "clamp(k, x[t], 2)", "clamp(k, 0, x[t])", "x[t] < k"):
            lines.append(f"  y[{len(lines)}] = {more}\n")
        for more in ("mod(x[t], 2)", "x[t] != k", "where(x[t], k, 2)", "where(x[t] == 3, x[t], k)"):
            lines.append(f"  y[{len(lines)}] = {more}\n")
        text = f"cell Nan[H](x: [H]) -> y {{\n  param k: [H]\n{''.join(lines)}}}\n"
        cell = cell_of(text, "Nan", "H")
        numbers = [0, 1, -1, 3, -2.5, float("inf"), -float("inf"), float("nan")]
        x = torch.tensor(numbers, dtype=torch.float64).reshape(2, 1, 4)
        for k in (0, 1):
            with torch.no_grad():
                cell.k.fill_(k)
                ours, theirs = reference(cell)(x)[0], cell(x)[0]
            for number, line in enumerate(lines):
                with self.subTest(line, k=k):
                    pair = ours[:, :, number], theirs[:, :, number]
                    torch.testing.assert_close(*pair, rtol=1e-12, atol=0, equal_nan=True)

    def test_nan_in_padding(self):
        text = """cell Unit[H](x: [H]) -> h {
  state h: [H] = h0
  param h0: [H]
  param W: [H, H]
  direction = W @ (x[t] + h[t-1])
  h[t] = direction * rsqrt(dot(direction, direction)) / x[t]
}
network Units[H](x: [H]) -> y {
  y = Unit[H = H](x) + reverse Unit[H = H](x)
}
"""
        for cell in (cell_of(text, "Units", "H"), shipped(EXAMPLES / "cells/rwkv4.rnn")):
            (x,) = inputs_of(cell, STEPS, BATCH)
            past = torch.arange(STEPS)[:, None] >= LENGTHS
            x = torch.where(past[:, :, None], torch.nan, x)
            self.compare(cell, [x], lengths=LENGTHS)
            self.compare(cell, [x], lengths=LENGTHS, reset=resets())

    def test_nothing_to_do(self):
        """No steps, no sequences (which the library refuses), or none in any sequence."""
        cell = written("Both")
        module = reference(cell)
        for steps, batch in ((0, 2), (3, 0), (0, 0)):
            inputs, states = inputs_of(cell, steps, batch), states_of(cell, batch)
            for lengths in (None, torch.zeros(batch, dtype=torch.int64)):
                more = {"lengths": lengths, "reset": torch.ones(steps, batch)}
                outputs, finals = module(*inputs, states=states, **more)
                self.assertEqual(outputs.y.shape, (steps, batch, DIMS["H"]))
                for ours, theirs in zip(finals, states):
                    self.close(ours, theirs, "state")
        named = dict(zip([s.name for s in cell.source.states], states_of(cell, 2)))
        x = torch.full((3, 2, DIMS["F"]), torch.nan, dtype=torch.float64)
        self.compare(cell, [x], named, lengths=torch.zeros(2, dtype=torch.int64))

    def test_of_what_is_no_cell(self):
        with self.assertRaisesRegex(TypeError, "an rnnc.torch.Cell, not LSTM; torch.nn.LSTM is its reference$"):
            reference(rnnc.torch.LSTM(2, 3))
        with self.assertRaisesRegex(TypeError, "^reference takes an rnnc.torch.Cell, not Linear$"):
            reference(torch.nn.Linear(2, 3))

    def test_batch_first(self):
        cell = cell_of(EXAMPLES / "cells/qrnn.rnn", None, "IH", batch_first=True)
        self.compare(cell, inputs_of(cell, BATCH, STEPS), lengths=LENGTHS)

    def test_second_derivatives(self):
        for cell in (shipped(EXAMPLES / "cells/lstm.rnn"), written("Both")):
            for parameter in cell.parameters():
                parameter.requires_grad_(parameter.numel() < 10)
            few = [p for p in cell.parameters() if p.requires_grad][:2]
            module = reference(cell)
            inputs = inputs_of(cell, 3, 2)
            states = states_of(cell, 2)
            given = [t.requires_grad_() for t in (*inputs, *states, *few)]
            reset = resets()[:3, :2]

            def results(*given):
                states = given[len(inputs) : len(inputs) + len(cell.source.states)]
                outputs = module(*given[: len(inputs)], states=states, lengths=[3, 1], reset=reset)
                return tuple(flat(outputs))

            self.assertTrue(torch.autograd.gradgradcheck(results, given, fast_mode=True))

    def test_transforms(self):
        """`torch.func` maps over batches of sequences and of params, and goes forward."""
        cell = shipped(EXAMPLES / "networks/bidirectional_gru.rnn")
        module = reference(cell)
        params = {name: p.detach() for name, p in module.named_parameters()}
        self.assertEqual(list(params), [p.name for p in cell.source.params])
        x, dx = torch.randn(2, 3, STEPS, BATCH, DIMS["F"], dtype=torch.float64)

        def results(params, x):
            more = {"lengths": LENGTHS, "reset": resets()}
            y, states = torch.func.functional_call(module, params, (x,), more)
            return (y, *states)

        mapped = torch.func.vmap(results, (None, 0))(params, x)
        for number, one in enumerate(x):
            for ours, theirs in zip(mapped, flat(cell(one, lengths=LENGTHS, reset=resets()))):
                self.close(ours[number], theirs, "vmap")

        many = {name: torch.stack([p, 2 * p]) for name, p in params.items()}
        mapped = torch.func.vmap(results, (0, None))(many, x[0])
        for number in range(2):
            one = results({name: p[number] for name, p in many.items()}, x[0])
            for ours, theirs in zip(mapped, one):
                self.close(ours[number], theirs, "vmap over params")

        value, tangent = torch.func.jvp(lambda x: results(params, x)[0], (x[0],), (dx[0],))
        along = torch.randn_like(value)
        given = x[0].clone().requires_grad_()
        y = cell(given, lengths=LENGTHS, reset=resets())[0]
        (gradient,) = torch.autograd.grad((y * along).sum(), given)
        self.close((tangent * along).sum(), (gradient * dx[0]).sum(), "jvp")

        def loss(params, x):
            return (results(params, x)[0] ** 2).sum()

        of_each = torch.func.vmap(torch.func.grad(loss), (None, 0))(params, x)
        for number, one in enumerate(x):
            (cell(one, lengths=LENGTHS, reset=resets())[0] ** 2).sum().backward()
            for name, parameter in cell.named_parameters():
                self.close(of_each[name][number], parameter.grad, name)
            cell.zero_grad()

    def test_stops_and_where_in_transforms(self):
        module = reference(written("Scalars"))
        x, s = inputs_of(written("Scalars"), 3, 1)

        def loss(x):
            return sum((r**2).sum() for r in flat(module(x, s)))

        one, other = torch.func.hessian(loss)(x), torch.func.jacrev(torch.func.grad(loss))(x)
        self.assertTrue(torch.isfinite(one).all())
        self.close(one, other, "Hessian", 1e-8)

    def test_copies_are_of_any_device_and_type(self):
        cell = written("Shapes")
        (x,) = inputs_of(cell, STEPS, BATCH)
        expected, finals = cell(x, lengths=LENGTHS, reset=resets())
        devices = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
        limits = {torch.float32: 1e-5, torch.bfloat16: 0.05}
        for device, dtype in itertools.product(devices, limits):
            other = copy.deepcopy(reference(cell)).to(device, dtype)
            y, states = other(x.to(device, dtype), lengths=LENGTHS, reset=resets())
            self.assertEqual((y[0].dtype, states[0].dtype), (dtype, torch.float32))
            self.assertEqual(y[0].device.type, device)
            self.close(y[0].cpu().double(), expected[0], "output", limits[dtype])
            self.close(states.g.cpu().double(), finals.g, "state", limits[dtype])
        self.assertEqual(cell.W.dtype, torch.float64)

    def test_without_a_cell(self):
        """From the text and tensors; also all in reverse."""
        path, dims = EXAMPLES / "cells/qrnn.rnn", {"I": 3, "H": 4}
        graph = parse(graph_of(path, None, dims), dims, reverse=True)
        source = source_of(path, None, dims, reverse=True)
        torch.manual_seed(1)
        x = torch.randn(STEPS, BATCH, 3, dtype=torch.float64)
        params = [torch.randn(p.shape, dtype=torch.float64) for p in source.params]
        for more in ({}, {"lengths": LENGTHS}, {"lengths": LENGTHS, "reset": resets()}):
            ours = run(graph, [x], params, **more)
            for pair in zip(flat(ours), flat(calls.call(source, [x], params, **more))):
                self.close(*pair, "reverse")

    def test_nothing_depends_on_values(self):
        """So that PyTorch can trace it."""
        cell = written("Both")
        module = copy.deepcopy(reference(cell)).to("meta")
        x = inputs_of(cell, STEPS, BATCH)[0]
        more = {"lengths": LENGTHS.to("meta"), "reset": resets().to("meta")}
        outputs, _ = module(x.to("meta"), **more)
        self.assertEqual((outputs.y.device.type, outputs.y.shape), ("meta", (*x.shape[:2], 4)))
        compiled = torch.compile(reference(cell), backend="eager", fullgraph=True)
        more = {"lengths": LENGTHS, "reset": resets()}
        self.close(compiled(x, **more)[0].y, cell(x, **more)[0].y, "compiled")

    def test_dims(self):
        text = """graph G(H = 6, N = 2, K) {
  input x: [2 * H / N - 1, K]
  param p: [H / 2 - N]
}
"""
        graph = parse(text, {"K": 5, "N": 3})
        self.assertEqual((graph.inputs, graph.params), ({"x": (3, 5)}, {"p": (0,)}))
        with self.assertRaisesRegex(ValueError, "is not a whole number"):
            parse(text, {"K": 5, "N": 5})

    def test_what_does_not_fit(self):
        module = reference(written("Both"))
        shapes = r"has shape \[4, 2, 2\], expected \[4, 2, 3\]"
        with self.assertRaisesRegex(ValueError, f"input x {shapes}"):
            module(torch.zeros(4, 2, 2))
        with self.assertRaisesRegex(ValueError, "there is no state 'z'"):
            module(torch.zeros(4, 2, 3), states={"z": 1})
        with self.assertRaisesRegex(ValueError, "2 inputs, expected 1: x"):
            module(torch.zeros(4, 2, 3), torch.zeros(4, 2, 3))
        with self.assertRaisesRegex(ValueError, "'total' is no op"):
            graph = parse("graph G() {\n  input x: []\n  %0 = total %0 : []\n  output y = %0\n}\n", {})
            run(graph, [torch.zeros(1, 1)], [])


if __name__ == "__main__":
    unittest.main()
