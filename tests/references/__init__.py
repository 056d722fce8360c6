"""Other people's implementations of the models in the zoo, run on our weights.

A module for each family has a table `REFERENCES`: model, who computes it, and the function.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from zoo.architectures.architecture import Config

Arrays = dict[str, NDArray[np.float32]]

Reference = Callable[[Config, Mapping[str, NDArray[np.float32]], NDArray[np.float32]], Arrays]
"""(configuration, values of the leaves by path, an image [3, H, W]) → outputs by name, no batch."""
