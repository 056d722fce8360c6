"""Handwritten digits of 8 x 8 pixels: what `vit_digits` is trained on and measured with.

Source: "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, 1998,
doi:10.24432/C50P49), of whose test part scikit-learn carries a copy: 1,797 images by 13 people.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from zoo.common.errors import MissingLibrary

Images = NDArray[np.uint8]  # `[n, 8, 8, 3]`, grey in all three channels
Labels = NDArray[np.int64]  # `[n]`, 0 to 9
DIGIT_CLASSES = 10
DARKEST = 16  # pixels are counts from 0 to this

HELD_OUT = VALIDATION = 0.2
"""Shares of each class: never trained on, and of the rest, apart while settings are chosen."""


@dataclass(frozen=True)
class Digits:
    """Images and which digit each shows."""

    images: Images
    labels: Labels

    def __getitem__(self, rows: NDArray[np.int64]) -> Self:
        return replace(self, images=self.images[rows], labels=self.labels[rows])


def load_digits() -> Digits:
    """All of them. **Raises** `MissingLibrary` where there is no scikit-learn."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingLibrary(
            "the digits come with scikit-learn, which is not installed: `pip install scikit-learn`."
        ) from error
    counts, labels = load_digits(return_X_y=True)
    grey = np.rint(counts.reshape(-1, 8, 8, 1) * (255 / DARKEST)).astype(np.uint8)
    return Digits(np.repeat(grey, 3, axis=-1), labels.astype(np.int64))


def divide(labels: Labels, share: float, key: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to keep and rows to set apart, the same share of each class.

    `key` shuffles. Its digests do that and no generator, whose stream may change from one version
    to another and move images that were trained on to those that were not.
    """
    apart: list[int] = []
    for label in range(DIGIT_CLASSES):
        rows = np.flatnonzero(labels == label).tolist()
        rows.sort(key=lambda row: hashlib.sha256(f"{key}|{row}".encode()).digest())
        apart += rows[: round(share * len(rows))]
    return np.setdiff1d(np.arange(len(labels)), apart), np.sort(apart)


def split_digits(seed: int = 0, validate: bool = False) -> tuple[Digits, Digits]:
    """Digits to train on, and digits to measure with.

    The latter are the held-out ones; with `validate` a part of the others, and the held-out ones
    are in neither. **Raises** `MissingLibrary`.
    """
    digits = load_digits()
    kept, apart = divide(digits.labels, HELD_OUT, f"{seed}|held out")
    if validate:
        digits = digits[kept]
        kept, apart = divide(digits.labels, VALIDATION, f"{seed}|validation")
    return digits[kept], digits[apart]
