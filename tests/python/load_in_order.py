"""Uses compilers in one process, in the order given, and then once more.

load_in_order.py [--global] NAME...     --global: rnnc's library shows its symbols to all that come
"""

import ctypes
import sys


def numba():
    import numba

    @numba.njit
    def total(n):
        result = 0.0
        for i in range(n):
            result += i * 0.5
        return result

    assert total(11) == 27.5


def triton():
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    @triton.jit
    def double(x, size: tl.constexpr):
        places = x + tl.arange(0, size)
        tl.store(places, tl.load(places) * 2)

    source = ASTSource(double, {"x": "*fp32", "size": "constexpr"}, {(1,): 64})
    code = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert ".visible .entry double" in code.asm["ptx"]


def inductor():
    import torch

    torch._dynamo.reset()

    @torch.compile
    def norm(x):
        return torch.tanh(x) / (1 + (x * x).sum(-1, keepdim=True))

    x = torch.linspace(-1, 1, 60).reshape(4, 15)
    expected = torch.tanh(x) / (1 + (x * x).sum(-1, keepdim=True))
    assert torch.allclose(norm(x), expected, atol=1e-6)


def rnnc():
    import numpy
    import rnnc

    if shown_to_all:
        ctypes.CDLL(rnnc._library.library._name, ctypes.RTLD_GLOBAL)
    cell = "cell Sum[I](x: [I]) -> s {\n  state s: [I]\n  s[t] = s[t-1] + tanh(x[t])\n}\n"
    x = numpy.linspace(-1, 1, 24).reshape(4, 2, 3)
    sums = rnnc.compile(cell, I=3).run({"x": x}, {}).outputs["s"]
    assert numpy.allclose(sums, numpy.tanh(x).cumsum(0), atol=1e-5)


names = sys.argv[1:]
shown_to_all = names[0] == "--global"
for name in names[shown_to_all:] * 2:
    globals()[name]()
