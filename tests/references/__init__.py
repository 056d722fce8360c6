"""Other implementations of the zoo's models, which run on the zoo's weights.

The module of each family has a table `REFERENCES`. Its rows give, for a model, the names of the
implementations and the functions that run them.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from zoo.architectures.architecture import Config

Arrays = dict[str, NDArray[np.float32]]
"""Outputs or tensors by name."""

Reference = Callable[[Config, Mapping[str, NDArray[np.float32]], NDArray[np.float32]], Arrays]
"""A function of (configuration, values of the leaves by path, image `[3, H, W]`).

It returns the outputs by name, without a batch axis.
"""
