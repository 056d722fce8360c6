"""The frameworks. How a model of each becomes a file the page shows, and a test runs it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from tests.frameworks.rows import Row


@dataclass(frozen=True)
class Framework:
    """``tables`` are modules with rows; the last says what there is, where that can be listed."""

    title: str
    package: str
    tables: tuple[str, ...]
    listed: bool = True

    @property
    def installed(self) -> bool:
        return find_spec(self.package) is not None

    def rows(self) -> Iterator[Row]:
        for table in self.tables:
            yield from import_module(f"tests.frameworks.{table}").ROWS

    def public(self) -> set[str]:
        return import_module(f"tests.frameworks.{self.tables[-1]}").public()

    def left(self) -> Mapping[str, str]:
        """What there is no row for, and why."""
        return import_module(f"tests.frameworks.{self.tables[-1]}").LEFT if self.listed else {}


FRAMEWORKS = (
    Framework("Equinox", "equinox", ("equinox",)),
    Framework("Flax Linen", "flax", ("linen",)),
    Framework("Flax NNX", "flax", ("nnx",)),
    Framework("Haiku", "haiku", ("haiku",)),
    Framework("Keras 3", "keras", ("keras_layers", "keras_sequences", "keras_images")),
    Framework("Brax", "brax", ("policies",), listed=False),
    Framework("jraph", "jraph", ("graphs",)),
    Framework("optax", "optax", ("training",), listed=False),
)
