"""ONNX models made for tests of rnnc.convert, and ONNX Runtime beside it."""

import unittest

import numpy as np

try:
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    raise unittest.SkipTest("onnx and onnxruntime are not installed") from None

import rnnc.convert

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
