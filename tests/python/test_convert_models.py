"""`rnnc.convert` beside ONNX Runtime and PyTorch: whole models, and scans."""

import io
import unittest
import warnings

import numpy as np
from onnx_models import FLOAT, Case, model_of, onnx_runtime, weights  # which skips all without onnx

import onnx
from onnx import TensorProto, helper, numpy_helper

import rnnc
import rnnc.convert


class Models(Case):
    def layer(self, kind, x, name, hidden, features, directions, constants, more=(), outputs=None):
        own = weights(self.draw, kind, hidden, features, directions)
        constants.update({f"{name}_{n}": a for n, a in own.items()})
        return helper.make_node(
            kind,
            [x, *(f"{name}_{n}" for n in own), *more],
            outputs or [f"{name}_Y"],
            name=name,
            hidden_size=hidden,
            direction="bidirectional" if directions == 2 else "forward",
        )

    def test_two_bidirectional_layers_from_batches_to_classes(self):
        constants = {
            "shape": np.array([0, 0, -1]),
            "W": self.draw((8, 6)),
            "b": self.draw((6,)),
            "at": np.array(-1),
        }
        nodes = [
            helper.make_node("Transpose", ["x"], ["steps"], perm=[1, 0, 2]),
            self.layer("LSTM", "steps", "one", 5, 3, 2, constants),
            helper.make_node("Transpose", ["one_Y"], ["sides"], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", ["sides", "shape"], ["joined"]),
            self.layer("GRU", "joined", "two", 4, 10, 2, constants, outputs=["two_Y", "two_h"]),
            helper.make_node("Transpose", ["two_Y"], ["two_sides"], perm=[2, 0, 1, 3]),
            helper.make_node("Reshape", ["two_sides", "shape3"], ["y"]),
            helper.make_node("MatMul", ["y", "W"], ["product"]),
            helper.make_node("Add", ["product", "b"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["classes"], axis=-1),
            helper.make_node("Gather", ["classes", "at"], ["last"], axis=1),
        ]
        constants["shape3"] = np.array([0, 0, 8])
        model = model_of(nodes, [("x", ("batch", "steps", 3))], ["classes", "last", "two_h"], constants)
        converted = self.agrees(model, {"x": self.draw((2, 9, 3))})
        self.assertIn("reverse GRU[H = 4]", converted.text)

    def test_steps_and_sequences_in_one_axis(self):
        """A product over all steps of all sequences, as some exporters write it."""
        for steps, batch in ("steps", "batch"), (6, 3):
            constants = {"W": self.draw((3, 4)), "b": self.draw((4,)), "rows": np.array([-1, 3])}
            constants |= {"z": np.array([0, 1]), "four": np.array([4])}
            nodes = [
                helper.make_node("Reshape", ["x", "rows"], ["flat"]),
                helper.make_node("Gemm", ["flat", "W", "b"], ["product"]),
                helper.make_node("Relu", ["product"], ["positive"]),
                helper.make_node("Shape", ["x"], ["sizes"]),
                helper.make_node("Gather", ["sizes", "z"], ["leading"]),
                helper.make_node("Concat", ["leading", "four"], ["shape"], axis=0),
                helper.make_node("Reshape", ["positive", "shape"], ["again"]),
                self.layer("GRU", "again", "l", 5, 4, 1, constants),
            ]
            model = model_of(nodes, [("x", (steps, batch, 3))], ["l_Y", "again"], constants)
            self.agrees(model, {"x": self.draw((6, 3, 3))})
        model = model_of(nodes[:3], [("x", ("steps", "batch", 3))], ["positive"], constants)
        self.refused(model, "output `positive`: has steps and sequences in one axis")

    def test_final_states_of_both_directions_to_a_gemm(self):
        """Forward ends at a sequence's last step, reverse at the first; one product reads both."""
        constants = {"M": self.draw((2, 10)), "c": self.draw((2,)), "zero": np.array([0])}
        after = [
            helper.make_node("Split", ["h"], ["f", "r"], axis=0, num_outputs=2),
            helper.make_node("Squeeze", ["f", "zero"], ["f0"]),
            helper.make_node("Squeeze", ["r", "zero"], ["r0"]),
            helper.make_node("Concat", ["f0", "r0"], ["both"], axis=1),
            helper.make_node("Gemm", ["both", "M", "c"], ["y"], transB=1, alpha=0.5, beta=2.0),
        ]
        x, lengths = ("x", ("steps", "batch", 3)), ("n", ("batch",), TensorProto.INT32)
        for own in False, True:
            more = ["n"] if own else []
            layer = self.layer("LSTM", "x", "l", 5, 3, 2, constants, more, ["", "h", "c_"])
            model = model_of([layer, *after], [x, lengths][: 1 + own], ["y", "c_"], constants, opset=18)
            given = {"x": self.draw((6, 4, 3)), "n": np.array([6, 1, 4, 2], dtype=np.int32)}
            self.agrees(model, given if own else {"x": given["x"]})

    def test_states_given_for_two_layers_at_once(self):
        """As PyTorch writes them: slices of one input for each layer, and zeros of the sequences' number."""
        constants = {f"k{i}": np.array([i]) for i in range(3)}
        constants["five"] = np.array([5])
        constants["position"] = np.array(1)
        constants["zero"] = np.array([0])
        nodes = [
            helper.make_node("Slice", ["h0", "k0", "k1", "k0"], ["first"]),
            helper.make_node("Slice", ["h0", "k1", "k2", "k0"], ["second"]),
            self.layer("GRU", "x", "one", 5, 3, 1, constants, ["", "first"], ["one_Y", "one_h"]),
            helper.make_node("Squeeze", ["one_Y", "k1"], ["between"]),
            self.layer("GRU", "between", "two", 5, 5, 1, constants, ["", "second"], ["two_Y", "two_h"]),
            helper.make_node("Squeeze", ["two_Y", "k1"], ["y"]),
            helper.make_node("Concat", ["one_h", "two_h"], ["h_n"], axis=0),
            helper.make_node("Shape", ["x"], ["sizes"]),
            helper.make_node("Gather", ["sizes", "k1"], ["batch"]),
            helper.make_node("Concat", ["k1", "batch", "five"], ["state"], axis=0),
            helper.make_node("ConstantOfShape", ["state"], ["zeros"]),
            self.layer("RNN", "y", "three", 5, 5, 1, constants, ["", "zeros"], ["three_Y"]),
        ]
        inputs = [("x", ("steps", "batch", 3)), ("h0", (2, "batch", 5))]
        model = model_of(nodes, inputs, ["y", "h_n", "three_Y"], constants)
        given = {"x": self.draw((4, 3, 3)), "h0": self.draw((2, 3, 5))}
        converted = self.agrees(model, given)
        self.assertEqual(converted.starts, {"GRU.0.h": ("h0", 0), "GRU.1.h": ("h0", 1)})

    def test_embeddings(self):
        constants = {"table": self.draw((11, 3))}
        nodes = [
            helper.make_node("Gather", ["table", "tokens"], ["x"]),
            self.layer("LSTM", "x", "l", 4, 3, 1, constants),
        ]
        model = model_of(nodes, [("tokens", ("steps", "batch"), TensorProto.INT64)], ["l_Y"], constants)
        self.agrees(model, {"tokens": self.random.integers(0, 11, (5, 2))})

    def test_elementwise(self):
        from rnnc.convert.operators import BINARY, PARAMETRIC, UNARY

        constants = {"half": np.float32(0.5), "row": self.draw((4,)) + 2, "axes": np.array([-1])}
        nodes, outputs = [self.layer("RNN", "x", "l", 4, 3, 1, constants)], []
        nodes.append(helper.make_node("Squeeze", ["l_Y", "one"], ["h"]))
        constants["one"] = np.array([1])
        nodes.append(helper.make_node("Add", ["h", "row"], ["p"]))  # above 0
        logical = {"Not", "And", "Or", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}

        def add(kind, *operands, **attributes):
            name = f"y_{kind}_{len(outputs)}"
            nodes.append(helper.make_node(kind, operands, [name], **attributes))
            outputs.append(name)

        for kind in sorted({*UNARY, *PARAMETRIC} - logical - {"Celu"}):
            add(kind, "p" if kind in ("Log", "Reciprocal", "Sqrt") else "h")
        for kind in sorted({*BINARY} - logical):
            add(kind, "p", "row")
            add(kind, "half", "p")
        add("Clip", "h", "half")
        add("Softmax", "h", axis=-1)
        add("LogSoftmax", "h", axis=-1)
        add("LayerNormalization", "h", "row", "row", axis=-1)
        add("ReduceMean", "h", "axes")
        add("ReduceMax", "h", "axes", keepdims=0)
        add("Gelu", "h")
        add("Gelu", "h", approximate="tanh")
        add("Sub", "h", next(o for o in outputs if o.startswith("y_ReduceMean")))
        nodes.append(helper.make_node("Greater", ["h", "half"], ["above"]))
        add("Where", "above", "h", "row")
        model = model_of(nodes, [("x", ("steps", "batch", 3))], outputs, constants, opset=20)
        self.agrees(model, {"x": self.draw((5, 2, 3))})

    def test_float64(self):
        constants = {n: a.astype(np.float64) for n, a in weights(self.draw, "RNN", 4, 3, 1).items()}
        node = helper.make_node("RNN", ["X", "W", "R", "B"], ["Y"])
        model = model_of([node], [("X", (5, 2, 3), TensorProto.DOUBLE)], ["Y"], constants)
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
        converted = rnnc.convert.from_onnx(model)
        self.assertEqual(converted.dtype, "f64")
        x, w = self.random.normal(size=(5, 2, 3)), constants
        h, wanted = np.zeros((2, 4)), []
        for step in x:
            h = np.tanh(step @ w["W"][0].T + h @ w["R"][0].T + w["B"][0].reshape(2, 4).sum(0))
            wanted.append(h)
        np.testing.assert_allclose(converted.run({"X": x})["Y"][:, 0], wanted, atol=1e-13)


class PyTorch(Case):
    """Models as PyTorch exports them; and back into a module."""

    def setUp(self):
        super().setUp()
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        torch.manual_seed(3)

    def model(self, kind, options):
        import torch

        class Reader(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.before = torch.nn.Linear(5, 6)
                self.layers = kind(6, 7, num_layers=2, **options)
                self.after = torch.nn.Linear(14 if self.layers.bidirectional else 7, 3)

            def forward(self, x):
                y, _ = self.layers(self.before(x))
                return self.after(y), self.after(y[:, -1] if self.layers.batch_first else y[-1])

        return Reader().eval()

    def test_exported_models(self):
        import torch

        x = torch.randn(4, 9, 5)
        for kind in torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN:
            for options in {}, {"bidirectional": True}, {"batch_first": True, "dropout": 0.1}:
                for axes in None, {"x": {0: "a", 1: "b"}}:
                    with self.subTest(kind=kind, options=options, axes=axes), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        module, file = self.model(kind, options), io.BytesIO()
                        names = {"input_names": ["x"], "output_names": ["y", "last"]}
                        torch.onnx.export(module, (x,), file, dynamo=False, dynamic_axes=axes, **names)
                        model = onnx.load_from_string(file.getvalue())
                        wanted = {n: a.detach().numpy() for n, a in zip(["y", "last"], module(x))}
                        self.agrees(model, {"x": x.numpy()}, wanted=wanted)

    def test_into_a_module(self):
        import torch

        import rnnc.torch

        constants = weights(self.draw, "GRU", 4, 3, 1)
        node = helper.make_node("GRU", ["X", "W", "R", "B"], ["Y"], hidden_size=4)
        model = model_of([node], [("X", ("t", "b", 3))], ["Y"], constants)
        converted = rnnc.convert.from_onnx(model)
        cell = rnnc.torch.Cell(converted.text, "Model")
        cell.load_state_dict({name: torch.from_numpy(array) for name, array in converted.weights.items()})
        x = self.draw((5, 2, 3))
        y, _ = cell(torch.from_numpy(x))
        np.testing.assert_allclose(y.detach().numpy(), onnx_runtime(model, {"X": x})["Y"][:, 0], atol=1e-5)


class Scans(Case):
    def scan(self, nodes, state, slice_, output, constants, x, s0, **attributes):
        """A Scan of one state, input, and output."""
        body = helper.make_graph(
            nodes,
            "step",
            [
                helper.make_tensor_value_info("s", FLOAT, state),
                helper.make_tensor_value_info("v", FLOAT, slice_),
            ],
            [
                helper.make_tensor_value_info("s_new", FLOAT, state),
                helper.make_tensor_value_info("o", FLOAT, output),
            ],
            [numpy_helper.from_array(a, n) for n, a in constants.items()],
        )
        node = helper.make_node(
            "Scan", ["s0", "x"], ["s_last", "y"], body=body, num_scan_inputs=1, **attributes
        )
        return model_of([node], [("s0", s0.shape), ("x", x.shape)], ["s_last", "y"])

    def gated(self):
        nodes = [
            helper.make_node("MatMul", ["v", "W"], ["a"]),
            helper.make_node("MatMul", ["s", "R"], ["b"]),
            helper.make_node("Add", ["a", "b"], ["sum"]),
            helper.make_node("Tanh", ["sum"], ["s_new"]),
            helper.make_node("Mul", ["s_new", "s_new"], ["o"]),
        ]
        return nodes, {"W": self.draw((3, 4)), "R": self.draw((4, 4))}

    def test_of_sequences_and_in_reverse(self):
        nodes, constants = self.gated()
        x, s0 = self.draw((6, 2, 3)), self.draw((2, 4))
        for direction in 0, 1:
            attributes = {"scan_input_directions": [direction], "scan_output_directions": [direction]}
            model = self.scan(nodes, (2, 4), (2, 3), (2, 4), constants, x, s0, **attributes)
            self.agrees(model, {"s0": s0, "x": x})

    def test_along_another_axis(self):
        nodes, constants = self.gated()
        x, s0 = self.draw((2, 6, 3)), self.draw((2, 4))
        attributes = {"scan_input_axes": [1], "scan_output_axes": [1]}
        model = self.scan(nodes, (2, 4), (2, 3), (2, 4), constants, x, s0, **attributes)
        self.agrees(model, {"s0": s0, "x": x})

    def test_refused(self):
        nodes, constants = self.gated()
        nodes[3] = helper.make_node("Tan", ["sum"], ["s_new"], name="tangent")
        x, s0 = self.draw((6, 2, 3)), self.draw((2, 4))
        model = self.scan(nodes, (2, 4), (2, 3), (2, 4), constants, x, s0)
        self.refused(
            model,
            "node `s_last` (Scan): has a body that cannot be expressed: node `tangent` (Tan): this operator is "
            "not supported",
        )
        mixed = self.scan(
            self.gated()[0], (2, 4), (2, 3), (2, 4), constants, x, s0, scan_output_directions=[1]
        )
        self.refused(mixed, "goes forward in some arrays and in reverse in others")


if __name__ == "__main__":
    unittest.main()
