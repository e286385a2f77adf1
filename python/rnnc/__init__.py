"""rnnc: recurrent cells from their equations.

    import numpy as np, rnnc
    program = rnnc.compile("lstm", I=3, H=4)
    result = program.run({"x": x}, params)          # x: [T, B, 3], params by name
    result.outputs["h"], result.final_states["c"]

`rnnc.torch.Cell` is a cell as a PyTorch module, with gradients. The compiler is librnnc
(docs/c.md), found by the environment variable RNNC_LIBRARY, beside this package, or by its name.
"""

from rnnc._library import Error, devices, version
from rnnc.definition import Definition, Input, Param, State, cell
from rnnc.explanation import Explanation
from rnnc.program import Array, Program, Result, compile, shipped
from rnnc.weights import WeightMap, load_weights, save_weights

__all__ = [
    "Array",
    "Definition",
    "Error",
    "Explanation",
    "Input",
    "Param",
    "Program",
    "Result",
    "State",
    "WeightMap",
    "cell",
    "compile",
    "devices",
    "load_weights",
    "save_weights",
    "shipped",
    "version",
]
