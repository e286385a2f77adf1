"""Weight maps, files of weights, shipped names, explanations, with NumPy alone."""

import importlib.util
import tempfile
import unittest
from pathlib import Path

import numpy as np

import rnnc

MAP = """[W_r, W_z, W_n] = transpose(kernel)
[R_r, R_z, R_n] = transpose(recurrent)
b_r = bias[0 of 3] + more[0 of 3]
b_z = bias[1 of 3]
b_n = bias[2 of 3]
b_hn = extra or zeros
"""


def random_tensors(shapes, seed=1):
    random = np.random.default_rng(seed)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


class KerasAndFlax(unittest.TestCase):
    """Layers of Keras and cells of Flax give what cells here do (tests/goldens/make_keras_flax_models.py)."""

    CELLS = {"lstm": "lstm", "gru": "gru", "gru_reset_before": "gru_reset_before", "rnn": "elman"}

    def test_each(self):
        path = Path(__file__).resolve().parents[1] / "goldens/keras_flax_models.npz"
        arrays = rnnc.load_weights(path)
        models = dict.fromkeys(name.split(":")[0] for name in arrays)
        self.assertEqual(len(models), 14)
        for model in models:
            with self.subTest(model):
                prefix = f"{model}:w:"
                tensors = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
                kind = model.split("/")[1].removeprefix("nnx_").removeprefix("optimized_")
                cell = self.CELLS[kind.removeprefix("bidirectional_")]
                both = kind.startswith("bidirectional_")
                dims = {"F": 3, "H": 4} if both else {"I": 3, "H": 4}
                program = rnnc.compile(f"bidirectional_{cell}" if both else cell, dtype="f64", **dims)
                params = rnnc.WeightMap(model).to_params(program, tensors)
                found = program.run({"x": arrays[f"{model}:x"]}, params).outputs[program.outputs[0].name]
                np.testing.assert_allclose(found, arrays[f"{model}:y"], atol=1e-6)

    def test_tensors(self):
        """As the packages hold them."""
        from rnnc.convert import flax_tensors, keras_tensors

        def layer(**values):
            return type("GRU", (), {"cell": type("GRUCell", (), {"weights": [
                _Variable(name, value) for name, value in values.items()]})()})()

        one = layer(kernel=np.ones((3, 12)), bias=np.arange(24.0).reshape(2, 12))
        np.testing.assert_array_equal(keras_tensors(one)["bias"], np.arange(24.0))
        both = type("Bidirectional", (), {"forward_layer": one, "backward_layer": layer(kernel=np.ones(2))})()
        self.assertEqual(list(keras_tensors(both)), ["forward/kernel", "forward/bias", "backward/kernel"])
        with self.assertRaisesRegex(ValueError, "Dense is neither a recurrent layer nor Bidirectional"):
            keras_tensors(type("Dense", (), {})())
        tree = {"hi": {"kernel": np.ones((2, 2)), "bias": np.ones(2)}}
        self.assertEqual(list(flax_tensors(tree)), ["hi/kernel", "hi/bias"])


class _Variable:
    def __init__(self, name, value):
        self.name, self._value = name, value

    def __array__(self, dtype=None, copy=None):
        return self._value


class Maps(unittest.TestCase):
    def setUp(self):
        self.program = rnnc.compile("gru", I=3, H=4)
        self.tensors = random_tensors(
            {"kernel": (3, 12), "recurrent": (4, 12), "bias": (12,), "more": (12,)}
        )

    def test_to_params(self):
        params = rnnc.WeightMap(MAP).to_params(self.program, self.tensors)
        self.assertEqual({p.name: p.shape for p in self.program.params},
                         {name: array.shape for name, array in params.items()})
        kernel, bias = self.tensors["kernel"].T, self.tensors["bias"]
        np.testing.assert_array_equal(params["W_z"], kernel[4:8])
        np.testing.assert_array_equal(params["R_n"], self.tensors["recurrent"].T[8:])
        np.testing.assert_array_equal(params["b_r"], bias[:4] + self.tensors["more"][:4])
        np.testing.assert_array_equal(params["b_n"], bias[8:])
        np.testing.assert_array_equal(params["b_hn"], np.zeros(4))

    def test_there_and_back(self):
        weight_map = rnnc.WeightMap(MAP)
        params = random_tensors({p.name: p.shape for p in self.program.params}, 2)
        tensors = weight_map.to_tensors(self.program, params)
        np.testing.assert_array_equal(tensors["bias"][:4], params["b_r"])
        np.testing.assert_array_equal(tensors["more"], np.zeros(12))
        again = weight_map.to_params(self.program, tensors)
        for name, values in params.items():
            np.testing.assert_array_equal(again[name], values)

    def test_from_a_file_and_by_name(self):
        shipped = rnnc.WeightMap("torch/gru").layout(self.program)
        self.assertEqual(shipped["tensors"][0], {"name": "weight_ih_l0", "shape": [12, 3]})
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "gru.map"
            path.write_text(MAP)
            params = rnnc.WeightMap(path).to_params(self.program, self.tensors)
        self.assertEqual(len(params), len(self.program.params))

    def test_what_does_not_fit_is_listed(self):
        del self.tensors["recurrent"], self.tensors["more"]
        self.tensors["bias"] = self.tensors["bias"][:11]
        with self.assertRaises(ValueError) as caught:
            rnnc.WeightMap(MAP).to_params(self.program, self.tensors)
        self.assertEqual(
            str(caught.exception),
            "tensor 'bias' has shape (11,), expected (12,); "
            "tensor 'recurrent' of shape (4, 12) is missing; "
            "tensor 'more' of shape (12,) is missing",
        )
        with self.assertRaisesRegex(ValueError, "param 'W_r' is missing; param 'W_z' is missing"):
            rnnc.WeightMap(MAP).to_tensors(self.program, {})
        with self.assertRaisesRegex(rnnc.Error, r"no weight map `torch/grv` \(did you mean `torch/gru`"):
            rnnc.WeightMap("torch/grv")
        with self.assertRaisesRegex(rnnc.Error, "text.map"):
            rnnc.WeightMap("W_r = \n")
        with self.assertRaisesRegex(rnnc.Error, "`LSTM` has no param `W_r`"):
            rnnc.WeightMap(MAP).layout(rnnc.compile("lstm", I=3, H=4))
        with self.assertRaises(FileNotFoundError):
            rnnc.WeightMap("nowhere.map")


class Files(unittest.TestCase):
    def there_and_back(self, name):
        weights = random_tensors({"a.b": (2, 3), "c": ()})
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            rnnc.save_weights(path, weights)
            again = rnnc.load_weights(path)
            self.assertEqual(list(Path(folder).iterdir()), [path])
            with self.assertRaisesRegex(ValueError, "weights are floats: 'a' is int64"):
                rnnc.save_weights(path, {"a": np.array([1])})
            # What is there stays where the next cannot be written.
            Path(f"{path}.part").mkdir()
            with self.assertRaises(OSError):
                rnnc.save_weights(path, weights)
            self.assertEqual(rnnc.load_weights(path).keys(), weights.keys())
        for key, values in weights.items():
            np.testing.assert_array_equal(again[key], values)
            self.assertEqual(again[key].dtype, np.float32)

    def test_npz(self):
        self.there_and_back("w.npz")

    @unittest.skipUnless(importlib.util.find_spec("safetensors"), "safetensors is not installed")
    def test_safetensors(self):
        self.there_and_back("w.safetensors")

    @unittest.skipIf(importlib.util.find_spec("safetensors"), "safetensors is installed")
    def test_safetensors_is_missing(self):
        with self.assertRaisesRegex(ImportError, "pip install safetensors"):
            rnnc.load_weights("w.safetensors")

    def test_other_names(self):
        for work in (rnnc.load_weights, lambda path: rnnc.save_weights(path, {})):
            with self.assertRaisesRegex(ValueError, r"w\.pt: expected a name that ends in \.npz or"):
                work("w.pt")


class Shipped(unittest.TestCase):
    def test_names(self):
        names = rnnc.shipped()
        self.assertIn("lstm", names)
        self.assertIn("stacked_lstm", names)
        self.assertEqual(rnnc.compile("stacked_lstm", F=3, H=4, L=2).states[0].shape, (4,))
        with self.assertRaisesRegex(rnnc.Error, r"no cell or network `lsmt` \(did you mean `lstm`\?\)"):
            rnnc.compile("lsmt", I=3, H=4)


class Explanations(unittest.TestCase):
    def setUp(self):
        self.program = rnnc.compile("lstm", I=3, H=4)

    def test_explain(self):
        explanation = self.program.explain(batch=2, steps=5)
        self.assertTrue(str(explanation).startswith("LSTM: f32, batch 2, 5 steps"))
        self.assertEqual((explanation.json["batch"], explanation.json["steps"]), (2, 5))
        self.assertTrue(explanation.html.startswith("<!doctype html>"))
        frame = explanation._repr_html_()
        self.assertTrue(frame.startswith('<iframe srcdoc="&lt;!doctype html&gt;'))
        self.assertNotIn("<script", frame)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lstm.html"
            explanation.save(path)
            self.assertEqual(path.read_text(encoding="utf-8"), explanation.html)

    def test_explain_training(self):
        explanation = self.program.explain(batch=2, steps=5, training=1, wanted_params=bytes([1] * 12))
        self.assertIn("gradients of 12 params", str(explanation))
        self.assertEqual(set(explanation.json) & {"forward", "backward"}, {"forward", "backward"})

    def test_emit(self):
        self.assertTrue(self.program.emit("plan", 2, 5).startswith("plan LSTM: f32, batch 2"))
        self.assertIn("graph LSTM", self.program.emit("graph"))
        with self.assertRaisesRegex(rnnc.Error, "there is no cuda of a program on cpu"):
            self.program.emit("cuda")


if __name__ == "__main__":
    unittest.main()
