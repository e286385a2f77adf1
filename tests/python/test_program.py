"""rnnc on NumPy arrays, by the library of this build: RNNC_LIBRARY."""

import ctypes
import unittest
from pathlib import Path

import numpy as np

import rnnc
from rnnc import _library

CELLS = Path(__file__).resolve().parents[2] / "examples/cells"
TWO = "cell A(x: [2]) -> y {\n  y = x[t]\n}\ncell B(x: [2]) -> y {\n  y = 2 * x[t]\n}\n"


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def random_params(program, seed=1):
    random = np.random.default_rng(seed)
    return {p.name: random.uniform(-0.5, 0.5, p.shape) for p in program.params}


def lstm(x, w, lengths=None):
    """By its equations."""
    steps, batch, _ = x.shape
    size = w["b_i"].shape[0]
    h, c, outputs = np.zeros((batch, size)), np.zeros((batch, size)), []
    for t in range(steps):
        gate = {
            g: x[t] @ w[f"W_{g}"].T + h @ w[f"R_{g}"].T + w[f"b_{g}"] for g in ("i", "f", "g", "o")
        }
        new_c = sigmoid(gate["f"]) * c + sigmoid(gate["i"]) * np.tanh(gate["g"])
        new_h = sigmoid(gate["o"]) * np.tanh(new_c)
        alive = np.ones((batch, 1), bool) if lengths is None else (t < lengths)[:, None]
        h, c = np.where(alive, new_h, h), np.where(alive, new_c, c)
        outputs.append(np.where(alive, new_h, 0))
    return np.stack(outputs), h, c


class Programs(unittest.TestCase):
    def test_arrays(self):
        program = rnnc.compile(CELLS / "lstm.rnn", I=3, H=4)
        self.assertEqual(program.inputs, [rnnc.Array("x", (3,), "f32")])
        self.assertEqual([s.name for s in program.states], ["h", "c"])
        self.assertEqual(program.params[0], rnnc.Array("W_i", (4, 3), "f32"))
        self.assertEqual(program.notes, [])

    def test_lstm(self):
        for size, batch, steps in ((1, 1, 1), (3, 2, 5), (33, 3, 7)):
            for lengths in (None, np.arange(batch) * 2):
                program = rnnc.compile(CELLS / "lstm.rnn", dtype="f64", threads=1, I=size + 1, H=size)
                w = random_params(program)
                x = np.random.default_rng(2).normal(size=(steps, batch, size + 1))
                result = program.run({"x": x}, w, lengths=lengths)
                y, h, c = lstm(x, w, lengths)
                np.testing.assert_allclose(result.outputs["h"], y, rtol=0, atol=1e-12)
                np.testing.assert_allclose(result.final_states["h"], h, rtol=0, atol=1e-12)
                np.testing.assert_allclose(result.final_states["c"], c, rtol=0, atol=1e-12)

    def test_pieces_go_on(self):
        program = rnnc.compile(CELLS / "lstm.rnn", dtype="f64", I=3, H=4)
        w = random_params(program)
        x = np.random.default_rng(3).normal(size=(6, 2, 3))
        whole = program.run({"x": x}, w)
        first = program.run({"x": x[:4]}, w)
        second = program.run({"x": x[4:]}, w, initial_states=first.final_states)
        np.testing.assert_allclose(second.outputs["h"], whole.outputs["h"][4:], atol=1e-14)

    def test_resets_begin_anew(self):
        program = rnnc.compile(CELLS / "lstm.rnn", dtype="f64", I=3, H=4)
        w = random_params(program)
        x = np.random.default_rng(4).normal(size=(6, 2, 3))
        reset = np.zeros((6, 2))
        reset[3] = 1
        result = program.run({"x": x}, w, reset=reset)
        np.testing.assert_allclose(result.outputs["h"][3:], lstm(x[3:], w)[0], atol=1e-12)

    def test_arrays_that_are_not_contiguous(self):
        program = rnnc.compile(TWO, "B")
        x = np.arange(24, dtype=np.float64).reshape(2, 4, 3).transpose(1, 2, 0)[:, :, ::-1]
        np.testing.assert_array_equal(program.run({"x": x}, {}).outputs["y"], 2 * x)

    def test_what_does_not_fit_is_listed(self):
        program = rnnc.compile(CELLS / "lstm.rnn", I=3, H=4)
        w = random_params(program)
        w["W_i"] = w["W_i"].T
        del w["b_o"]
        with self.assertRaises(ValueError) as raised:
            program.run({"x": np.zeros((5, 2, 3)), "z": 1}, w, lengths=[1, 2, 3])
        text = str(raised.exception)
        self.assertIn("input 'z': there is none; there are ['x']", text)
        self.assertIn("param 'W_i' has shape (3, 4), expected (4, 3)", text)
        self.assertIn("param 'b_o' of shape (4,) is missing", text)
        self.assertIn("lengths has shape (3,), expected (2,)", text)

    def test_errors_of_the_compiler(self):
        with self.assertRaises(rnnc.Error) as raised:
            rnnc.compile("cell A[H](x: [H]) -> y {\n  y = z\n}\n", H=2)
        self.assertEqual(raised.exception.status, "RNNC_INVALID_TEXT")
        self.assertTrue(str(raised.exception).startswith("cell.rnn:2:7: error: "))
        with self.assertRaises(rnnc.Error):
            rnnc.compile("no/such/file.rnn")
        with self.assertRaises(rnnc.Error) as raised:
            rnnc.compile(TWO)
        self.assertIn("the text defines A, B", str(raised.exception))
        with self.assertRaises(ValueError):
            rnnc.compile(TWO, "A", dtype="f8")
        with self.assertRaises(rnnc.Error) as raised:
            rnnc.compile(TWO, "A", device="cuda:77")
        self.assertEqual(raised.exception.status, "RNNC_NO_DEVICE")

    def test_the_library(self):
        self.assertEqual(len(rnnc.version()), 3)
        self.assertEqual(rnnc.devices()["cpu"], "usable")


class Declarations(unittest.TestCase):
    """What Python says of the structs, against what the header's compiler makes of them."""

    def test_structs(self):
        import re
        import subprocess
        import tempfile

        root = Path(__file__).resolve().parents[2]
        structs = {
            "rnnc_dim": _library.Dim,
            "rnnc_options": _library.Options,
            "rnnc_array": _library.ArrayInfo,
            "rnnc_shape": _library.Shape,
            "rnnc_sizes": _library.Sizes,
            "rnnc_reserve_bound": _library.ReserveBound,
            "rnnc_forward_args": _library.ForwardArgs,
            "rnnc_backward_args": _library.BackwardArgs,
        }
        lines, expected = [], []
        for name, struct in structs.items():
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            expected.append(f"{name} {ctypes.sizeof(struct)}")
            for field, *_ in struct._fields_:
                lines.append(f'printf("{field} %zu\\n", offsetof({name}, {field}));')
                expected.append(f"{field} {getattr(struct, field).offset}")
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "sizes.c"
            source.write_text(
                '#include <stdio.h>\n#include "runtime/capi/rnnc.h"\nint main(void) {'
                + "".join(lines)
                + "return 0; }\n"
            )
            program = Path(folder) / "sizes"
            subprocess.run(["cc", f"-I{root}", source, "-o", program], check=True)
            printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        self.assertEqual(printed.splitlines(), expected)
        header = (root / "runtime/capi/rnnc.h").read_text()
        declared = set(re.findall(r"\b(rnnc_[a-z_]+)\(", "".join(
            line for line in re.findall(r"RNNC_API[^;]*;", header))))
        self.assertEqual(set(_library.FUNCTIONS), declared)


if __name__ == "__main__":
    unittest.main()
