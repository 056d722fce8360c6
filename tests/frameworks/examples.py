"""The frameworks. How a model of each becomes a file the page shows, and a test runs it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from tests.frameworks.rows import Row


@dataclass(frozen=True)
class Framework:
    """``table`` is a module with rows, which says what there is, where that can be listed."""

    title: str
    package: str
    table: str
    listed: bool = True

    @property
    def installed(self) -> bool:
        return find_spec(self.package) is not None

    @property
    def module(self) -> ModuleType:
        return import_module(f"tests.frameworks.{self.table}")

    def rows(self) -> Sequence[Row]:
        return self.module.ROWS

    def left(self) -> Mapping[str, str]:
        """What there is no row for, and why."""
        return self.module.LEFT if self.listed else {}


FRAMEWORKS = (
    Framework("Equinox", "equinox", "equinox"),
    Framework("Flax Linen", "flax", "linen"),
    Framework("Flax NNX", "flax", "nnx"),
    Framework("Haiku", "haiku", "haiku"),
    Framework("Keras 3", "keras", "keras"),
    Framework("Brax", "brax", "policies", listed=False),
    Framework("jraph", "jraph", "graphs"),
    Framework("optax", "optax", "training", listed=False),
)
