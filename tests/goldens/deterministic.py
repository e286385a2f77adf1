"""Test data that Python and C++ make alike; twin of tests/support/reference/deterministic.h."""

import numpy as np
import torch

ROUNDINGS = {
    "f64": torch.float64,
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
}


def fnv1a64(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def bits(name, count):
    """Outputs 0 to count - 1 of splitmix64 seeded with the hash of `name`."""
    with np.errstate(over="ignore"):
        x = np.uint64(fnv1a64(name)) + (
            np.arange(count, dtype=np.uint64) + np.uint64(1)
        ) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def values(name, shape, scale, rounding, around=0):
    """A float64 tensor of uniform numbers within `scale` of `around`, rounded to `rounding`."""
    unit = (bits(name, int(np.prod(shape))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    tensor = torch.from_numpy(around + (2 * unit - 1) * scale).reshape(shape)
    return (
        tensor.to(torch.float32).to(ROUNDINGS[rounding]).double() if rounding != "f64" else tensor
    )
