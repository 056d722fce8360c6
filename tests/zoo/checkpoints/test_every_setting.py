"""Every setting of the classes that are read, at other values: what the library then computes is
computed here too, or the setting is refused by its name."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from tests.references import Arrays
from tests.references.settings import Made, picture
from weights import bind
from weights.errors import WeightsError
from weights.progress import Quiet
from zoo.architectures.builder import abstract
from zoo.architectures.config import Config
from zoo.architectures.dual.dual_config import DualConfig
from zoo.checkpoints.asked_entry import find_entry
from zoo.checkpoints.load import Loaded, open_weights
from zoo.checkpoints.weights_argument import Given
from zoo.errors import ZooError

CLOSE = 2e-4
"""Share of the largest number of an output, as which rounding may differ."""


class Refused(Exception):
    """The zoo reads no network with these settings."""


ANSWERS: dict[str, tuple[str, ...]] = {
    "AutoModelForInstanceSegmentation": ("logits", "pred_boxes", "pred_masks"),
}


def read(folder: Path) -> Loaded:
    """What the zoo reads. **Raises** `Refused`."""
    try:
        entry, choice = find_entry(None, Given(folder))
        return open_weights(choice, entry, Quiet())
    except (WeightsError, ZooError) as error:
        raise Refused(str(error)) from error


COMPUTED: dict[tuple[Config, str, str], Arrays] = {}


def computed(kind: str, case: Made, folder: Path) -> Arrays:
    """What the zoo's network computes. **Raises** `Refused`."""
    loaded, given = read(folder), picture(kind, case)
    key = (loaded.config, case.digest, str({name: x.shape for name, x in given.items()}))
    if key not in COMPUTED:
        model = bind(abstract(loaded.config), loaded.weights.arrays)
        inputs = [jnp.asarray(given[name]) for name in loaded.config.takes]
        if isinstance(loaded.config, DualConfig):
            inputs = [value[None] for value in inputs]
        found = model(*inputs)
        COMPUTED[key] = {
            name: np.asarray(value)
            for name, value in found._asdict().items()
            if isinstance(value, jax.Array)
        }
    return COMPUTED[key]


def distance(ours: Arrays, theirs: Arrays) -> float:
    """The largest difference of an output that both have, as a share of its largest number."""
    shares = [
        float(
            np.abs(ours[name].reshape(-1) - theirs[name].reshape(-1)).max()
            / np.abs(theirs[name]).max()
        )
        if ours[name].size == theirs[name].size
        else 9.0
        for name in theirs
        if name in ours
    ]
    return max(shares)
