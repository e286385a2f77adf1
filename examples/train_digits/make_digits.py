"""Writes digits.npy from scikit-learn's copy of the digits (README.md says whose they are).

    python3 examples/train_digits/make_digits.py      # needs numpy and scikit-learn

uint8 [1797, 65]: the 8 x 8 pixels of an image, 0 to 16, row by row, then the digit that it shows.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
array = np.hstack([digits.data, digits.target[:, None]]).astype(np.uint8)
assert array.shape == (1797, 65) and array[:, :64].max() == 16 and array[:, 64].max() == 9
np.save(Path(__file__).resolve().parent / "digits.npy", array)
