"""Models of other frameworks as `.rnn` text and weights (docs/convert.md).

    converted = rnnc.convert.from_onnx("model.onnx")
    converted.save("folder")                         # model.rnn, weights.npz, model.json
    outputs = converted.run({"X": x})                # by ONNX's names, in ONNX's layouts

`python -m rnnc.convert model.onnx -o folder` does the same. ONNX models need the package `onnx`
(`pip install rnnc[onnx]`).
"""

from rnnc.convert.model import from_onnx
from rnnc.convert.problems import ConvertError
from rnnc.convert.result import Converted
from rnnc.convert.tensors import flax_tensors, keras_tensors

__all__ = ["ConvertError", "Converted", "flax_tensors", "from_onnx", "keras_tensors"]
