"""Handwritten digits of 8 x 8 pixels, with which `vit_digits` is trained and measured.

Source: "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, 1998,
doi:10.24432/C50P49). scikit-learn contains a copy of its test part: 1,797 images by 13 people.
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
DARKEST = 16  # the largest value of a pixel in the source; the least is 0

HELD_OUT = VALIDATION = 0.2
"""Shares of each class: `HELD_OUT` of all digits is never used for training, and `VALIDATION` of
the rest is set apart while settings are chosen."""


@dataclass(frozen=True)
class Digits:
    """Images of handwritten digits, and the digit that each image shows."""

    images: Images
    labels: Labels

    def __getitem__(self, rows: NDArray[np.int64]) -> Self:
        """Return the digits in these rows."""
        return replace(self, images=self.images[rows], labels=self.labels[rows])


def load_digits() -> Digits:
    """Return all 1,797 digits. **Raises** `MissingLibrary` if scikit-learn is not installed."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingLibrary(
            "the digits are part of scikit-learn, which is not installed: run `pip install "
            "scikit-learn`."
        ) from error
    counts, labels = load_digits(return_X_y=True)
    grey = np.rint(counts.reshape(-1, 8, 8, 1) * (255 / DARKEST)).astype(np.uint8)
    return Digits(np.repeat(grey, 3, axis=-1), labels.astype(np.int64))


def split_rows(
    labels: Labels, share: float, key: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of the images to keep, and of those to set apart, both in ascending order.

    Of each class, the rounded `share` of its images is set apart. Which ones is decided by digests
    that contain `key`, not by a random generator. The numbers of a generator may change with its
    version, and images of the training set would get into the test set.
    """
    set_apart: list[int] = []
    for label in range(DIGIT_CLASSES):
        rows = np.flatnonzero(labels == label).tolist()
        rows.sort(key=lambda row: hashlib.sha256(f"{key}|{row}".encode()).digest())
        set_apart += rows[: round(share * len(rows))]
    return np.setdiff1d(np.arange(len(labels)), set_apart), np.sort(set_apart)


def split_digits(seed: int = 0, validate: bool = False) -> tuple[Digits, Digits]:
    """Return the digits to train on, and the digits to measure with.

    The second are the held-out digits, a share `HELD_OUT` of each class. If `validate` is true,
    they are a share `VALIDATION` of the other digits, to choose settings with, and the held-out
    digits are in neither result. `seed` selects another division. **Raises** `MissingLibrary` if
    scikit-learn is not installed.
    """
    digits = load_digits()
    training_rows, set_apart = split_rows(digits.labels, HELD_OUT, f"{seed}|held out")
    if validate:
        digits = digits[training_rows]
        training_rows, set_apart = split_rows(digits.labels, VALIDATION, f"{seed}|validation")
    return digits[training_rows], digits[set_apart]
