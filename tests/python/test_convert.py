"""`rnnc.convert` beside ONNX Runtime: ONNX's own cases, drawn attributes, what is refused, broken files."""

import io
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
from onnx_models import GATES, Case, model_of, onnx_runtime, weights  # which skips all without onnx

import onnx
from onnx import TensorProto, helper, numpy_helper

import rnnc
import rnnc.convert
from rnnc.convert.__main__ import main


class OwnCases(Case):
    """ONNX's backend tests of recurrences. Their weights are inputs of the model."""

    # Not in ONNX Runtime: what ONNX itself says is wanted is compared with.
    BATCHWISE = {"test_gru_batchwise", "test_lstm_batchwise", "test_simple_rnn_batchwise"}
    REFUSED = {"test_scan_sum": "is of opset 8, where Scan has other arguments"}

    def test_each(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from onnx.backend.test.loader import load_model_tests

            cases = load_model_tests(kind="node")
        count = 0
        for case in cases:
            if not re.match(r"test_(lstm|gru|rnn|simple_rnn|scan)(9|_)", case.name):
                continue
            arrays = dict(zip((i.name for i in case.model.graph.input), case.data_sets[0][0]))
            constants = {name: a for name, a in arrays.items() if name in ("W", "R", "B", "P")}
            inputs = {name: a for name, a in arrays.items() if name not in constants}
            with self.subTest(case.name):
                if case.name in self.REFUSED:
                    error = self.refused(case.model, self.REFUSED[case.name])
                    print(f"{case.name} is refused: {error}")
                    continue
                names = [output.name for output in case.model.graph.output]
                wanted = dict(zip(names, case.data_sets[0][1]))
                self.agrees(case.model, inputs, constants, wanted)
                if case.name in self.BATCHWISE:
                    print(f"{case.name} is not compared with ONNX Runtime: it has no layout = 1")
                else:
                    self.agrees(case.model, inputs, constants)
                count += 1
        self.assertGreaterEqual(count, 21)


class Attributes(Case):
    # Name, and the alpha and beta that it takes.
    FUNCTIONS = {
        "Affine": (0.7, 0.1),
        "Elu": (0.8,),
        "HardSigmoid": (0.3, 0.4),
        "LeakyRelu": (0.05,),
        "Relu": (),
        "Sigmoid": (),
        "Softplus": (),
        "Softsign": (),
        "Tanh": (),
        "ThresholdedRelu": (0.2,),
    }

    def activations(self, count):
        names = [str(name) for name in self.random.choice(list(self.FUNCTIONS), count)]
        values = [self.FUNCTIONS[name] for name in names]
        given = {"activations": names}
        for position, attribute in enumerate(["activation_alpha", "activation_beta"]):
            some = [float(v[position]) for v in values if len(v) > position]
            if some:
                given[attribute] = some
        return given

    def one(self, kind, index):
        direction = ("forward", "reverse", "bidirectional")[index % 3]
        directions = 2 if direction == "bidirectional" else 1
        steps, batch, features, hidden = 7, 3, 5, int(self.random.integers(1, 7))
        constants = weights(self.draw, kind, hidden, features, directions)
        inputs = {"X": self.draw((steps, batch, features))}
        names = ["X", "W", "R", "B"]
        if self.random.integers(3) == 0:
            del constants["B"]
            names[3] = ""
        attributes = {"direction": direction, "hidden_size": hidden}
        own_lengths = bool(self.random.integers(2))
        names.append("lengths" if own_lengths else "")
        if own_lengths:
            inputs["lengths"] = np.array([7, 1, 4], dtype=np.int32)
        for name in ("h0", "c0") if kind == "LSTM" else ("h0",):
            where = self.random.integers(3)
            names.append(name if where else "")
            if where == 1:
                inputs[name] = self.draw((directions, batch, hidden))
            elif where == 2:  # all sequences begin alike
                constants[name] = np.repeat(self.draw((directions, 1, hidden)), batch, axis=1)
        if kind == "LSTM" and self.random.integers(2):
            names.append("P")
            constants["P"] = self.draw((directions, 3 * hidden))
        if kind == "LSTM" and self.random.integers(3) == 0:
            attributes["input_forget"] = 1
        if kind == "GRU":
            attributes["linear_before_reset"] = int(self.random.integers(2))
        if self.random.integers(2):
            attributes["clip"] = 0.6
        if self.random.integers(2):
            each = {"LSTM": 3, "GRU": 2, "RNN": 1}[kind]
            attributes |= self.activations(each * directions)
        outputs = ["Y", "Y_h", "Y_c"][: 3 if kind == "LSTM" else 2]
        node = helper.make_node(kind, names, outputs, name="layer", **attributes)
        types = [(n, a.shape, *([TensorProto.INT32] if n == "lengths" else [])) for n, a in inputs.items()]
        self.agrees(model_of([node], types, outputs, constants), inputs)

    def test_drawn(self):
        for kind in GATES:
            for index in range(30):
                with self.subTest(kind=kind, index=index):
                    self.random = np.random.default_rng(index)
                    self.one(kind, index)

    def test_wrong_ones_are_named(self):
        def node(**attributes):
            made = helper.make_node("RNN", ["X", "W", "R"], ["Y"], name="odd", **attributes)
            constants = weights(self.draw, "RNN", 4, 3, 1)
            del constants["B"]
            return model_of([made], [("X", (5, 2, 3))], ["Y"], constants)

        self.refused(
            node(activations=["Sin"]), "node `odd` (RNN): has an activation `Sin`; there are affine,"
        )
        self.refused(
            node(activations=["ScaledTanh"]), "has an activation `ScaledTanh` without activation_alpha"
        )
        self.refused(node(activations=["Tanh"] * 2), "has 2 activations, expected 1")
        self.refused(node(direction="sideways"), "has direction `sideways`")
        self.refused(node(hidden_size=5), "has hidden_size 5, and R is for 4")
        self.refused(node(direction="bidirectional"), "has W of shape [1, 4, 3], expected [2, 4, 3]")


class Refusals(Case):
    def rnn(self, *more, inputs=(), outputs=("Y",)):
        constants = weights(self.draw, "RNN", 4, 3, 1)
        node = helper.make_node("RNN", ["X", "W", "R", "B"], ["Y", "Y_h"], name="layer")
        return model_of([node, *more], [("X", ("t", "b", 3)), *inputs], outputs, constants)

    def test_each_node_is_named(self):
        more = [
            helper.make_node("Tan", ["Y"], ["a"], name="tangent"),
            helper.make_node("CumSum", ["Y", "axis"], ["b"], name="sum over\ntime"),
            helper.make_node("Add", ["a", "b"], ["c"], name="innocent"),
            helper.make_node("Flatten", ["Y"], ["d"], name="flat"),
            helper.make_node("Add", ["Y", "Y_h"], ["e"], name="mixed"),
        ]
        model = self.rnn(*more, outputs=("c",))
        model.graph.initializer.append(numpy_helper.from_array(np.array(0), "axis"))
        error = self.refused(
            model,
            "node `tangent` (Tan): this operator is not supported",
            "node `sum over?time` (CumSum): this operator is not supported",
            "node `flat` (Flatten): flattens steps or sequences into features",
            "node `mixed` (Add): computes with values of every step and of the last",
        )
        self.assertNotIn("innocent", str(error))

    def test_inputs(self):
        node = helper.make_node("RNN", ["X", "W", "R"], ["Y"], name="layer")
        inputs = [("X", ("t", "b", 3)), ("W", (1, 4, 3)), ("R", (1, 4, 4))]
        model = model_of([node], inputs, ["Y"])
        self.refused(
            model, "input `W`: is read as weights and has no value: give it one (constants, --constant)"
        )
        self.refused(model, "constant `V`: the model has no such input", constants={"V": 1})
        self.refused(
            model_of([node], [("X", ("t", "b", "f")), *inputs[1:]], ["Y"]),
            "input `X`: has axes of features whose size is not known: [T, B, None]",
        )

    def test_a_state_of_another_layer(self):
        second = helper.make_node("RNN", ["X", "W", "R", "B", "", "Y_h"], ["Z"], name="decoder")
        self.refused(
            self.rnn(second, outputs=("Z",)), "node `decoder` (RNN): begins with what another layer ended"
        )

    def test_lengths_that_differ(self):
        second = helper.make_node("RNN", ["X", "W", "R", "B", "n"], ["Z"], name="other")
        model = self.rnn(second, inputs=[("n", ("b",), TensorProto.INT32)], outputs=("Z",))
        self.refused(model, "has sequence_lens other than those of what is before it")

    def test_the_last_step_where_there_are_lengths(self):
        """ONNX takes step T - 1, which for a shorter sequence is padding."""
        take = helper.make_node("Gather", ["Z", "at"], ["last"], axis=0, name="take")
        for inputs in ["X", "W", "R", "B", "n"], ["X", "W", "R", "B"]:
            nodes = [helper.make_node("RNN", inputs, ["Z"], name="one")]
            after = helper.make_node("RNN", ["X", "W", "R", "B", "n"], ["Y"], name="two")
            nodes += [take] if len(inputs) == 5 else [take, after]
            constants = {**weights(self.draw, "RNN", 4, 3, 1), "at": np.array(-1)}
            types = [("X", ("t", "b", 3)), ("n", ("b",), TensorProto.INT32)]
            reason = (
                "takes the last step where sequences" if len(inputs) == 5 else "has sequence_lens other than"
            )
            self.refused(model_of(nodes, types, ["last"], constants), reason)

    def test_constants_that_would_be_huge_or_random(self):
        def reason(kind, *constants, **attributes):
            made = helper.make_node(
                kind, [f"c{i}" for i in range(len(constants))], ["c"], name="odd", **attributes
            )
            model = self.rnn(made, helper.make_node("Add", ["Y", "c"], ["y"]), outputs=("y",))
            named = {f"c{i}": np.asarray(c) for i, c in enumerate(constants)}
            model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in named.items())
            return str(self.refused(model))

        many = np.array([2**40, 2**20])
        self.assertIn("makes a constant of too many elements", reason("ConstantOfShape", many))
        self.assertIn("makes a constant of too many elements", reason("Expand", 1.0, many))
        self.assertIn("draws random numbers", reason("RandomNormal", shape=[1]))
        self.assertIn("not supported, even of constants", reason("Range", 0, 2**60, 1))

    def test_other_inputs(self):
        constants = weights(self.draw, "RNN", 4, 3, 1)
        half = helper.make_node("RNN", ["X", "W", "R", "B"], ["Y"])
        model = model_of([half], [("X", ("t", "b", 3), TensorProto.FLOAT16)], ["Y"], constants)
        self.refused(model, "input `X`: is neither of float32 or float64 nor of integers")
        own = helper.make_node("Odd", ["X"], ["Y"], domain="example")
        self.refused(
            model_of([own], [("X", ("t", "b", 3))], ["Y"]),
            "node `Y` (Odd): is of the domain `example`, which is not ONNX's own",
        )

    def test_reshapes(self):
        from rnnc.convert.problems import Unsupported
        from rnnc.convert.values import Value, reshaped

        known = {"T": 7, "B": 3, "TB": 21}
        for axes, shape, wanted in (
            (("T", "B", 6), (7, 3, 2, 3), ("T", "B", 2, 3)),
            (("T", 2, "B", 3), (-1, 1, 2, 3, 3), ("T", 1, 2, "B", 3)),
            (("T", "B", 2, 4), (7, 3, -1), ("T", "B", 8)),
            (("T", "B", 6), (21, -1), ("TB", 6)),
            (("TB", 6), ("T", "B", 2, -1), ("T", "B", 2, 3)),
            (("T", 1, "B", 1, 5), ("T", "B", 5, -1), ("T", "B", 5, 1)),
        ):
            self.assertEqual(reshaped(Value("v", axes), shape, known).axes, wanted)
        for axes, shape in (
            (("T", "B", 6), (3, 7, 6)),
            (("T", "B", 6), (7, 18)),
            (("T",) + (1,) * 14 + (2,), (7,) + (1,) * 14 + (3,)),
        ):
            with self.assertRaisesRegex(Unsupported, "which mixes steps, sequences and features"):
                reshaped(Value("v", axes), shape, known)
        with self.assertRaisesRegex(Unsupported, "reshapes an array of more than 16 axes"):
            reshaped(Value("v", ("T",)), (7,) + (1,) * 60, known)

    def test_files_of_any_bytes(self):
        whole = self.rnn().SerializeToString()
        random = np.random.default_rng(1)
        accepted = 0
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "broken.onnx"
            for index in range(600):
                broken = bytearray(whole[: random.integers(len(whole) + 1)] if index % 3 == 0 else whole)
                for _ in range(int(random.integers(1, 6)) if broken else 0):
                    broken[random.integers(len(broken))] = random.integers(256)
                path.write_bytes(broken)
                try:
                    rnnc.convert.from_onnx(path).compile()
                    accepted += 1
                except (rnnc.convert.ConvertError, rnnc.Error) as error:
                    self.assertTrue(str(error))
        self.assertLess(accepted, 600)


def rnnc_command():
    """The command: the wheel's, or the build's beside its library."""
    built = Path(os.environ.get("RNNC_LIBRARY", "none")).resolve().parents[1] / "tools/rnnc"
    return str(built) if built.exists() else shutil.which("rnnc")


class Command(Case):
    @unittest.skipUnless(rnnc_command(), "there is no command rnnc")
    def test_what_it_prints_runs(self):
        constants = weights(self.draw, "GRU", 4, 3, 2)
        names = ["X", "W", "R", "B", "n", "h0"]
        node = helper.make_node("GRU", names, ["Y", "Y_h"], hidden_size=4, direction="bidirectional")
        inputs = [("X", ("t", "b", 3)), ("n", ("b",), TensorProto.INT32), ("h0", (2, "b", 4))]
        model = model_of([node], inputs, ["Y", "Y_h"], constants)
        x, n, h0 = self.draw((5, 2, 3)), np.array([5, 2], dtype=np.int32), self.draw((2, 2, 4))
        wanted = onnx_runtime(model, {"X": x, "n": n, "h0": h0})
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, f"{folder}/a.onnx")
            printed = io.StringIO()
            with redirect_stdout(printed):
                self.assertEqual(main([f"{folder}/a.onnx", "-o", folder]), 0)
            arrays = {"X": x, "lengths": n, "GRU.0.h_0": h0[0], "GRU.1.h_0": h0[1]}
            for name, array in arrays.items():
                np.save(f"{folder}/{name}.npy", array)
            words = [rnnc_command(), *printed.getvalue().split()[1:]]
            subprocess.run(words, cwd=folder, check=True)
            subprocess.run([words[0], "fmt", "--check", "model.rnn"], cwd=folder, check=True)
            y = np.load(f"{folder}/Y.npy").reshape(5, 2, 2, 4).swapaxes(1, 2)
            np.testing.assert_allclose(y, wanted["Y"], atol=1e-5)
            for layer in 0, 1:
                state = np.load(f"{folder}/GRU.{layer}.h.npy")
                np.testing.assert_allclose(state, wanted["Y_h"][layer], atol=1e-5)

    def test_files(self):
        constants = weights(self.draw, "RNN", 4, 3, 1)
        del constants["W"]
        node = helper.make_node("RNN", ["X", "W", "R", "B"], ["Y", "Y_h"], name="layer", hidden_size=4)
        model = model_of([node], [("X", ("t", "b", 3)), ("W", (1, 4, 3))], ["Y", "Y_h"], constants)
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            onnx.save(model, folder / "a.onnx")
            w, x = self.draw((1, 4, 3)), self.draw((5, 2, 3))
            np.save(folder / "w.npy", w)
            printed = io.StringIO()
            with redirect_stdout(printed):
                status = main(
                    [str(folder / "a.onnx"), "-o", str(folder / "out"), "--constant", f"W={folder}/w.npy"]
                )
            self.assertEqual(status, 0)
            self.assertEqual(
                printed.getvalue(),
                "rnnc run model.rnn --cell Model --weights weights.npz --input X=X.npy --output Y=Y.npy "
                "--final RNN.0.h=RNN.0.h.npy\n",
            )
            program = rnnc.compile(folder / "out/model.rnn", "Model")
            result = program.run({"X": x}, rnnc.load_weights(folder / "out/weights.npz"))
            wanted = onnx_runtime(model, {"X": x, "W": w})
            np.testing.assert_allclose(result.outputs["Y"], wanted["Y"][:, 0], atol=1e-5)
            np.testing.assert_allclose(result.final_states["RNN.0.h"], wanted["Y_h"][0], atol=1e-5)
            interface = json.loads((folder / "out/model.json").read_text())
            self.assertEqual(interface["outputs"][1]["sources"], ["RNN.0.h"])

    def test_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.onnx"
            path.write_bytes(b"\xff\x00no model")
            for arguments, reason in (
                ([str(path), "-o", folder], "not an ONNX model"),
                ([f"{folder}/none.onnx", "-o", folder], "No such file"),
                ([str(path), "-o", folder, "--constant", "W"], "expected NAME=FILE.npy"),
            ):
                errors = io.StringIO()
                with redirect_stderr(errors):
                    self.assertEqual(main(arguments), 1)
                self.assertRegex(errors.getvalue(), "^rnnc.convert: error: .*" + re.escape(reason))


if __name__ == "__main__":
    unittest.main()
