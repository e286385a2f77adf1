"""Cells as functions."""

from __future__ import annotations

import pickle
import unittest

import numpy as np

import rnnc
from rnnc import Input, Param, State


@rnnc.cell
def MGU(x: Input[I], h: State[H], *, W: Param[2, H, I], R: Param[H, H]) -> h:
    """Two lines of one equation, an array of params, a comment."""
    f = sigmoid(W[0] @ x[t] +  # a gate
                R @ h[t-1])
    n = tanh(W[1] @ x[t])
    h[t] = (1 - f) * h[t-1] + f * n


class Definitions(unittest.TestCase):
    def test_text(self):
        self.assertEqual(
            MGU.text,
            "cell MGU[H, I](x: [I]) -> h {\n"
            "  state h: [H]\n"
            "  param W: [2, H, I]\n"
            "  param R: [H, H]\n"
            "  f = sigmoid(W[0] @ x[t] + R @ h[t - 1])\n"
            "  n = tanh(W[1] @ x[t])\n"
            "  h[t] = (1 - f) * h[t-1] + f * n\n"
            "}\n".replace("[H, I](x", "[I, H](x"),
        )

    def test_run(self):
        program = rnnc.compile(MGU, dtype="f64", I=3, H=4)
        random = np.random.default_rng(1)
        w = {p.name: random.normal(size=p.shape) for p in program.params}
        x = random.normal(size=(5, 2, 3))
        h, outputs = np.zeros((2, 4)), []
        for step in x:
            f = 1 / (1 + np.exp(-(step @ w["W"][0].T + h @ w["R"].T)))
            h = (1 - f) * h + f * np.tanh(step @ w["W"][1].T)
            outputs.append(h)
        for definition in (MGU, pickle.loads(pickle.dumps(MGU))):
            result = rnnc.compile(definition, dtype="f64", I=3, H=4).run({"x": x}, w)
            np.testing.assert_allclose(result.outputs["h"], np.stack(outputs), atol=1e-12)

    def test_errors_point_into_the_file(self):
        @rnnc.cell
        def Wrong(x: Input[H]) -> y:
            y = x[t] + missing

        with self.assertRaises(rnnc.Error) as raised:
            rnnc.compile(Wrong, H=3)
        line = Wrong._lines[1]
        with open(__file__) as file:
            text = file.read().splitlines()[line - 1]
        column = text.index("missing") + 1
        self.assertTrue(str(raised.exception).startswith(f"{__file__}:{line}:{column}: error: "),
                        str(raised.exception))

    def test_what_is_no_cell(self):
        def loops(x: Input[H]) -> y:
            for k in x:
                y = k

        def unmarked(x, h: State[H]) -> h:
            h[t] = x[t]

        def without_outputs(x: Input[H]):
            y = x[t]

        def with_defaults(x: Input[H] = 1) -> y:
            y = x[t]

        for function, words in (
            (loops, "expected an equation"),
            (unmarked, "`x`: expected Input[…], State[…] or Param[…]"),
            (without_outputs, "`->` names the outputs of a cell"),
            (with_defaults, "a cell has no defaults"),
        ):
            with self.assertRaises(SyntaxError) as raised:
                rnnc.cell(function)
            self.assertIn(words, str(raised.exception))
            self.assertEqual(raised.exception.filename, __file__)


if __name__ == "__main__":
    unittest.main()
