"""Makes the .npz files that npz_test.cpp reads, so that NumPy itself says what they look like.

    python3 tests/runtime/data/make_npz.py      # needs numpy
"""

from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent

arrays = {
    "h": np.arange(6, dtype=np.float32).reshape(2, 3) / 4,
    "h@2": np.asfortranarray(np.arange(6, dtype=np.float64).reshape(3, 2)),
    "LSTM.0.c": np.array([1.5, -2.0], dtype=">f8"),
    "größe": np.array(0.5, dtype=np.float16),
    "empty": np.zeros((0, 3), dtype=np.float32),
    "zeros": np.zeros(1000, dtype=np.float32),
}
np.savez(FOLDER / "stored.npz", **arrays)
np.savez_compressed(FOLDER / "deflated.npz", **arrays)
