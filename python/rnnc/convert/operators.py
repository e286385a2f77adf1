"""Operators between recurrences: one function for each, from its node and values to a value.

A function takes the scope (`scope.py`), the node, and its operands: constants, Values, States, or None
for what is left out. It gives the values of the node's outputs, as a list where there are several.
"""

from math import prod

import numpy

from rnnc.convert.problems import Unsupported
from rnnc.convert.text import number
from rnnc.convert.values import (
    STEPS,
    States,
    Value,
    axes_text,
    computed,
    concatenated,
    constant_features,
    features,
    reshaped,
    sliced,
    transposed,
)

OPERATORS = {}


def operator(*names):
    def add(function):
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return add


# --- Elementwise.

# {0}, {1}, {2}: operands; other names: attributes.
UNARY = {
    "Abs": "abs({0})",
    "Ceil": "-floor(-{0})",
    "Cos": "cos({0})",
    "Erf": "erf({0})",
    "Exp": "exp({0})",
    "Floor": "floor({0})",
    "HardSwish": "hardswish({0})",
    "Log": "log({0})",
    "Mish": "mish({0})",
    "Neg": "-{0}",
    "Not": "1 - {0}",
    "Reciprocal": "1 / {0}",
    "Relu": "relu({0})",
    "Round": "round({0})",
    "Sigmoid": "sigmoid({0})",
    "Sign": "sign({0})",
    "Sin": "sin({0})",
    "Softplus": "softplus({0})",
    "Softsign": "softsign({0})",
    "Sqrt": "sqrt({0})",
    "Tanh": "tanh({0})",
}
BINARY = {
    "Add": "{0} + {1}",
    "And": "{0} * {1}",
    "Div": "{0} / {1}",
    "Equal": "{0} == {1}",
    "Greater": "{0} > {1}",
    "GreaterOrEqual": "{0} >= {1}",
    "Less": "{0} < {1}",
    "LessOrEqual": "{0} <= {1}",
    "Max": "max({0}, {1})",
    "Min": "min({0}, {1})",
    "Mul": "{0} * {1}",
    "Or": "max({0}, {1})",
    "Pow": "pow({0}, {1})",
    "Sub": "{0} - {1}",
    "Sum": "{0} + {1}",
}
# Activations with attributes, and what ONNX has for those that are not given.
PARAMETRIC = {
    "Celu": ("celu({0}, {alpha})", {"alpha": 1.0}),
    "Elu": ("relu({0}) + {alpha} * expm1(min({0}, 0))", {"alpha": 1.0}),
    "HardSigmoid": ("clamp({alpha} * {0} + {beta}, 0, 1)", {"alpha": 0.2, "beta": 0.5}),
    "LeakyRelu": ("leaky_relu({0}, {alpha})", {"alpha": 0.01}),
    "Selu": (
        "{gamma} * (relu({0}) + {alpha} * expm1(min({0}, 0)))",
        {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805},
    ),
    "ThresholdedRelu": ("where({0} > {alpha}, {0}, 0)", {"alpha": 1.0}),
}


def elementwise(scope, hint, pattern, operands):
    """A pattern of operands that broadcast as NumPy's do."""
    operands = [computed(scope.body, operand) for operand in operands]
    values = [operand for operand in operands if isinstance(operand, Value)]
    rank = max(o.ndim if isinstance(o, numpy.ndarray) else len(o.axes) for o in operands)
    axes = (1,) * rank
    for value in values:
        axes = tuple(map(_broadcast_axis, axes, _padded(value.axes, rank)))
    lasts = {value.last for value in values}
    if len(lasts) > 1:
        raise Unsupported("computes with values of every step and of the last")
    for operand in operands:
        if isinstance(operand, numpy.ndarray):
            axes = tuple(map(_broadcast_constant, axes, _padded(operand.shape, rank)))
    size = prod(features(axes))
    vector = size > 1 or any(value.vector for value in values)
    texts = [_operand(scope, hint, operand, axes, size, vector) for operand in operands]
    text = scope.body.let(hint, pattern.format(*texts))
    if vector and not any(_is_vector(scope, t, o, size) for t, o in zip(texts, operands)):
        text = scope.body.let(hint, f"{text} + zeros({size})")
    return Value(text, axes, vector=vector, last=lasts.pop())


def _is_vector(scope, text, operand, size):
    if isinstance(operand, numpy.ndarray):
        return text in scope.body.params
    return operand.vector and operand.size == size


def _padded(axes, rank):
    return (1,) * (rank - len(axes)) + tuple(axes)


def _broadcast_axis(a, b):
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    raise Unsupported(f"broadcasts an axis {a} with one of {b}")


def _broadcast_constant(axis, size):
    if axis in STEPS:
        return axis  # that the constant has 1 there is looked at later
    return _broadcast_axis(axis, size)


def _operand(scope, hint, operand, axes, size, vector):
    if isinstance(operand, numpy.ndarray):
        constant = constant_features(operand, axes).astype(scope.dtype)
        if (constant == constant[:1]).all() and constant.size:
            return number(constant[0])
        return scope.body.param(hint, constant)
    if operand.size == size:
        return operand.text if vector else operand.as_scalar()
    if operand.size == 1:
        return operand.as_scalar()
    raise Unsupported(f"broadcasts {axes_text(operand.axes)} to {axes_text(axes)} within the features")


def _unary(scope, node, x):
    return elementwise(scope, node.output[0], UNARY[node.op_type], [x])


def _many(scope, node, *operands):
    result = operands[0]
    for operand in operands[1:]:
        both_constant = isinstance(result, numpy.ndarray) and isinstance(operand, numpy.ndarray)
        if both_constant:  # the later ones are not
            operands = sorted(operands, key=lambda o: isinstance(o, numpy.ndarray))
            return _many(scope, node, *operands)
        result = elementwise(scope, node.output[0], BINARY[node.op_type], [result, operand])
    return result


def _parametric(scope, node, x):
    pattern, defaults = PARAMETRIC[node.op_type]
    given = {name: number(scope.dtype(scope.attribute(node, name, d))) for name, d in defaults.items()}
    for name, text in given.items():
        pattern = pattern.replace("{" + name + "}", text)
    return elementwise(scope, node.output[0], pattern, [_named(scope, node, x)])


def _named(scope, node, x):
    """The same under a name, for patterns that have it several times."""
    x = computed(scope.body, x)
    return Value(scope.body.let(node.output[0], x.text), x.axes, x.vector, x.last)


OPERATORS.update(dict.fromkeys(UNARY, _unary))
OPERATORS.update(dict.fromkeys(BINARY, _many))
OPERATORS.update(dict.fromkeys(PARAMETRIC, _parametric))


@operator("Gelu")
def _gelu(scope, node, x):
    is_tanh = scope.attribute(node, "approximate", b"none") == b"tanh"
    pattern = "gelu_tanh({0})" if is_tanh else "gelu({0})"
    return elementwise(scope, node.output[0], pattern, [x])


@operator("PRelu")
def _prelu(scope, node, x, slope):
    x = _named(scope, node, x)
    return elementwise(scope, node.output[0], "where({0} > 0, {0}, {0} * {1})", [x, slope])


@operator("Clip")
def _clip(scope, node, x, low=None, high=None):
    bounds = {"max({0}, {1})": low, "min({0}, {1})": high}
    for (pattern, bound), name in zip(bounds.items(), ("min", "max")):
        bound = scope.attribute(node, name, None) if bound is None else bound
        if bound is not None:
            bound = bound if isinstance(bound, Value) else numpy.asarray(bound)
            x = elementwise(scope, node.output[0], pattern, [x, bound])
    return x


@operator("Where")
def _where(scope, node, condition, a, b):
    return elementwise(scope, node.output[0], "where({0}, {1}, {2})", [condition, a, b])


@operator("Cast")
def _cast(scope, node, x):
    import onnx

    to = scope.attribute(node, "to", 0)
    if to not in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE):
        raise Unsupported(f"casts to {onnx.TensorProto.DataType.Name(to)}, and values are floats")
    if isinstance(x, Value) and x.text in scope.integers:
        raise Unsupported("casts integers that only a table may read")
    return x


# --- Products and norms over the features.


def _whole_vector(value, what):
    """The last axis has all that there is at a step."""
    last = value.axes[-1] if value.axes else 1
    if last in STEPS or last != value.size:
        raise Unsupported(f"{what} over axes other than the features: {axes_text(value.axes)}")
    return value


def product(scope, hint, x, matrix):
    """x @ matrix, with ONNX's [inputs, outputs]."""
    x = _whole_vector(computed(scope.body, x), "a product")
    if matrix.ndim != 2 or matrix.shape[0] != x.size:
        raise Unsupported(f"multiplies {axes_text(x.axes)} by {list(matrix.shape)}")
    param = scope.body.param(hint, matrix.T.astype(scope.dtype))
    text = scope.body.let(hint, f"{param} @ {x.as_vector()}")
    return Value(text, (*x.axes[:-1], matrix.shape[1]), last=x.last)


@operator("MatMul")
def _matmul(scope, node, x, matrix):
    if not isinstance(matrix, numpy.ndarray):
        raise Unsupported("multiplies by a matrix that is no constant")
    while matrix.ndim > 2 and matrix.shape[0] == 1:
        matrix = matrix[0]
    return product(scope, node.output[0], x, matrix)


@operator("Gemm")
def _gemm(scope, node, x, matrix, bias=None):
    if not isinstance(matrix, numpy.ndarray) or matrix.ndim != 2:
        raise Unsupported("multiplies by what is no constant matrix")
    if scope.attribute(node, "transA", 0):
        raise Unsupported("has transA = 1")
    matrix = matrix.T if scope.attribute(node, "transB", 0) else matrix
    y = product(scope, node.output[0], x, matrix * scope.dtype(scope.attribute(node, "alpha", 1.0)))
    if bias is None:
        return y
    beta = scope.attribute(node, "beta", 1.0)
    if beta != 1:
        scaled = isinstance(bias, numpy.ndarray)
        bias = (
            bias * scope.dtype(beta)
            if scaled
            else elementwise(scope, node.output[0], "{0} * {1}", [bias, numpy.asarray(beta)])
        )
    return elementwise(scope, node.output[0], "{0} + {1}", [y, bias])


@operator("Softmax", "LogSoftmax")
def _softmax(scope, node, x):
    x = _whole_vector(computed(scope.body, x), "normalises")
    axis = scope.attribute(node, "axis", -1 if scope.opset >= 13 else 1)
    if axis % len(x.axes) != len(x.axes) - 1:
        raise Unsupported("normalises over an axis other than the last")
    function = "softmax" if node.op_type == "Softmax" else "log_softmax"
    return Value(scope.body.let(node.output[0], f"{function}({x.as_vector()})"), x.axes, last=x.last)


@operator("LayerNormalization")
def _layer_normalization(scope, node, x, gain, bias=None):
    x = _whole_vector(_named(scope, node, x), "normalises")
    if scope.attribute(node, "axis", -1) % len(x.axes) != len(x.axes) - 1 or len(node.output) > 1:
        raise Unsupported("normalises over more than the last axis, or gives its mean")
    epsilon = number(scope.dtype(scope.attribute(node, "epsilon", 1e-5)))
    v = x.as_vector()
    text = scope.body.let(node.output[0], f"({v} - mean({v})) * rsqrt(var({v}) + {epsilon})")
    y = elementwise(scope, node.output[0], "{0} * {1}", [Value(text, x.axes, last=x.last), gain])
    return y if bias is None else elementwise(scope, node.output[0], "{0} + {1}", [y, bias])


@operator("BatchNormalization")
def _batch_normalization(scope, node, x, gain, bias, mean, variance):
    if scope.attribute(node, "training_mode", 0) or len(node.output) > 1:
        raise Unsupported("is in training mode")
    if any(not isinstance(a, numpy.ndarray) for a in (gain, bias, mean, variance)):
        raise Unsupported("has statistics that are no constants")
    x = computed(scope.body, x)
    after = (1,) * (len(x.axes) - 2)
    scale = gain / numpy.sqrt(variance + scope.attribute(node, "epsilon", 1e-5))
    offset = (bias - mean * scale).reshape(-1, *after)
    y = elementwise(scope, node.output[0], "{0} * {1}", [x, scale.reshape(-1, *after)])
    return elementwise(scope, node.output[0], "{0} + {1}", [y, offset])


@operator("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
def _reduce(scope, node, x, axes=None):
    x = computed(scope.body, x)
    rank = len(x.axes)
    axes = scope.attribute(node, "axes", None) if axes is None else axes
    axes = sorted({int(axis) % rank for axis in (range(rank) if axes is None else axes)})
    left = [x.axes[i] for i in range(rank) if i not in axes]
    if any(x.axes[i] in STEPS for i in axes) or prod(features(left)) != 1:
        raise Unsupported("reduces other than all features")
    function = node.op_type.removeprefix("Reduce").lower()
    kept = scope.attribute(node, "keepdims", 1)
    shape = [1 if i in axes else x.axes[i] for i in range(rank)] if kept else left
    text = scope.body.let(node.output[0], f"{function}({x.as_vector()})")
    return Value(text, tuple(shape), vector=False, last=x.last)


# --- Shapes.


@operator("Identity", "Dropout")
def _identity(scope, node, x, *_):
    if any(node.output[1:]):
        raise Unsupported("gives its mask")
    return x


@operator("Transpose")
def _transpose(scope, node, x):
    return transposed(x, scope.attribute(node, "perm", None) or range(len(x.axes))[::-1])


@operator("Reshape")
def _reshape(scope, node, x, shape):
    shape = _integers(shape, "a shape")
    if not scope.attribute(node, "allowzero", 0):
        shape = [x.axes[i] if size == 0 else size for i, size in enumerate(shape)]
    return reshaped(x, shape, scope.sizes)


@operator("Flatten")
def _flatten(scope, node, x):
    axis = scope.attribute(node, "axis", 1)
    if axis != 1 or not x.axes or x.axes[0] != "B" or "T" in x.axes:
        raise Unsupported("flattens steps or sequences into features")
    return x.viewed(("B", x.size if isinstance(x, Value) else prod(features(x.axes))))


@operator("Squeeze")
def _squeeze(scope, node, x, axes=None):
    axes = scope.attribute(node, "axes", None) if axes is None else _integers(axes, "axes")
    if axes is None:
        axes = [i for i, size in enumerate(x.axes) if size == 1]
    axes = [axis % len(x.axes) for axis in axes]
    wrong = [x.axes[i] for i in axes if x.axes[i] != 1 and scope.sizes.get(x.axes[i]) != 1]
    if wrong or any(x.axes[i] in STEPS for i in axes):
        raise Unsupported(f"squeezes axes of {axes_text(x.axes)} that are not of size 1")
    return x.viewed(a for i, a in enumerate(x.axes) if i not in axes)


@operator("Unsqueeze")
def _unsqueeze(scope, node, x, axes=None):
    axes = scope.attribute(node, "axes", None) if axes is None else _integers(axes, "axes")
    rank = len(x.axes) + len(axes)
    axes = {axis % rank for axis in axes}
    rest = iter(x.axes)
    return x.viewed(1 if i in axes else next(rest) for i in range(rank))


@operator("Concat")
def _concat(scope, node, *values):
    return concatenated(scope.body, node.output[0], values, scope.attribute(node, "axis", 0))


@operator("Split")
def _split(scope, node, x, sizes=None):
    axis = scope.attribute(node, "axis", 0) % len(x.axes)
    sizes = scope.attribute(node, "split", None) if sizes is None else _integers(sizes, "sizes")
    if x.axes[axis] in STEPS:
        raise Unsupported("splits steps or sequences")
    if sizes is None:
        each = -(-x.axes[axis] // len(node.output))
        sizes = [min(each, x.axes[axis] - each * i) for i in range(len(node.output))]
    parts, start = [], 0
    for name, size in zip(node.output, sizes):
        parts.append(sliced(scope.body, name, x, axis, start, start + size))
        start += size
    return parts


@operator("Slice")
def _slice(scope, node, x, starts=None, ends=None, axes=None, steps=None):
    starts = scope.attribute(node, "starts", None) if starts is None else _integers(starts, "starts")
    ends = scope.attribute(node, "ends", None) if ends is None else _integers(ends, "ends")
    axes = scope.attribute(node, "axes", None) if axes is None else _integers(axes, "axes")
    axes = range(len(starts)) if axes is None else axes
    if steps is not None and any(step != 1 for step in _integers(steps, "steps")):
        raise Unsupported("takes every other element, or in reverse")
    for start, end, axis in zip(starts, ends, axes):
        axis %= len(x.axes)
        count = x.axes[axis]
        if count == "T" and start == -1 and end > 0:
            x = _last_step(scope, x).viewed((*x.axes[:axis], 1, *x.axes[axis + 1 :]))
        elif count in STEPS:
            if start != 0 or (end != count and end < 2**31 - 1 and end != scope.sizes.get(count)):
                raise Unsupported("takes some of the steps or sequences")
        else:
            start, end, _ = slice(start, end).indices(count)
            x = sliced(scope.body, node.output[0], x, axis, start, max(start, end))
    return x


def _last_step(scope, x):
    if isinstance(x, States) or x.last:
        raise Unsupported("takes a step of what has none")
    scope.take_last_step()
    return Value(x.text, x.axes, x.vector, last=True)


EMBEDDING = """/// Rows of a table.
cell NAME[V, E](token: int []) -> y {
  param table: [V, E]
  y = table[token[t]]
}"""


@operator("Gather")
def _gather(scope, node, x, index):
    axis = scope.attribute(node, "axis", 0)
    if isinstance(x, numpy.ndarray):
        return _embedding(scope, node, x, index, axis)
    axis %= len(x.axes)
    at = _integers(index, "an index")
    if len(at) != 1 or numpy.ndim(index) > 1:
        raise Unsupported("takes several elements")
    count, rest = x.axes[axis], (*x.axes[:axis], *x.axes[axis + 1 :])
    if count == "T" and at[0] in (-1, (scope.sizes.get("T") or 0) - 1):
        x, at = _last_step(scope, x), None
    elif count in STEPS:
        raise Unsupported("takes one of the steps or sequences, which is not the last step")
    else:
        at = at[0] + count if at[0] < 0 else at[0]
        x = sliced(scope.body, node.output[0], x, axis, at, at + 1)
    kept = (1,) if numpy.ndim(index) == 1 else ()
    return x.viewed((*rest[:axis], *kept, *rest[axis:]))


def _embedding(scope, node, table, index, axis):
    if not isinstance(index, Value) or index.text not in scope.integers:
        raise Unsupported("reads a table at what is no input of integers")
    if table.ndim != 2 or axis != 0 or scope.body.reads:
        raise Unsupported("reads a table other than a matrix by its rows, or within a step")
    cell = scope.body.module.cell("Embedding", EMBEDDING)
    scope.body.module.call(cell, {"table": table.astype(scope.dtype)})
    dims = f"V = {table.shape[0]}, E = {table.shape[1]}"
    text = scope.body.let(node.output[0], f"{cell}[{dims}]({index.text})")
    return Value(text, (*index.axes, table.shape[1]))


def _integers(array, what):
    if not isinstance(array, numpy.ndarray):
        raise Unsupported(f"has {what} that is no constant")
    return [a if isinstance(a, str) else int(a) for a in array.reshape(-1)]
