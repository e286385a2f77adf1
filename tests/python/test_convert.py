"""`rnnc.convert` beside ONNX Runtime: ONNX's own cases, drawn attributes, whole models, broken files."""

import io
import json
import re
import tempfile
import unittest
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    raise unittest.SkipTest("onnx and onnxruntime are not installed") from None

import rnnc
import rnnc.convert
from rnnc.convert.__main__ import main

FLOAT = TensorProto.FLOAT
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def model_of(nodes, inputs, outputs, constants=(), opset=17, name="a model"):
    """`inputs`: name and shape (and type, of integers); `constants`: arrays by name."""
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(n, t[0] if t else FLOAT, s) for n, s, *t in inputs],
        [helper.make_tensor_value_info(n, FLOAT, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(constants).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def onnx_runtime(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {n: np.asarray(a) for n, a in inputs.items()})))


def weights(draw, kind, hidden, features, directions):
    gates = GATES[kind]
    shapes = {
        "W": (directions, gates * hidden, features),
        "R": (directions, gates * hidden, hidden),
        "B": (directions, 2 * gates * hidden),
    }
    return {name: draw(shape) for name, shape in shapes.items()}


class Case(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(5)

    def draw(self, shape):
        return self.random.uniform(-0.7, 0.7, shape).astype(np.float32)

    def agrees(self, model, inputs, constants=None, wanted=None):
        """With ONNX Runtime, or with what is wanted."""
        converted = rnnc.convert.from_onnx(model, constants)
        wanted = wanted or onnx_runtime(model, {**inputs, **(constants or {})})
        found = converted.run(inputs)
        self.assertEqual(list(found), list(wanted))
        for name, array in wanted.items():
            self.assertEqual(found[name].shape, array.shape, name)
            np.testing.assert_allclose(found[name], array, atol=1e-5, rtol=1e-5, err_msg=converted.text)
        return converted

    def refused(self, model, *reasons, constants=None):
        with self.assertRaises(rnnc.convert.ConvertError) as caught:
            rnnc.convert.from_onnx(model, constants)
        for reason in reasons:
            self.assertIn(reason, str(caught.exception))
        return caught.exception


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
        """Forward ends at the last step, reverse at the first; one product reads both."""
        constants = {"M": self.draw((2, 10)), "c": self.draw((2,)), "one": np.array([1])}
        nodes = [
            self.layer("LSTM", "x", "l", 5, 3, 2, constants, outputs=["", "h", "c_"]),
            helper.make_node("Split", ["h"], ["f", "r"], axis=0, num_outputs=2),
            helper.make_node("Squeeze", ["f", "zero"], ["f0"]),
            helper.make_node("Squeeze", ["r", "zero"], ["r0"]),
            helper.make_node("Concat", ["f0", "r0"], ["both"], axis=1),
            helper.make_node("Gemm", ["both", "M", "c"], ["y"], transB=1, alpha=0.5, beta=2.0),
        ]
        constants["zero"] = np.array([0])
        model = model_of(nodes, [("x", ("steps", "batch", 3))], ["y", "c_"], constants, opset=18)
        self.agrees(model, {"x": self.draw((6, 4, 3))})

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


class Command(Case):
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
