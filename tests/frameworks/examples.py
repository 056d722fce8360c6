"""The list of frameworks. The page has an example of each, which a test runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from tests.frameworks.rows import Row


@dataclass(frozen=True)
class Framework:
    """A framework with a table of its layers.

    ``table`` is the name of the module with its rows. If ``listed``, the module also lists the
    public layers of the framework. The default tests convert the rows in ``usual``, which over all
    frameworks have one layer of each kind.
    """

    title: str
    package: str
    table: str
    usual: Collection[str]
    listed: bool = True

    @property
    def installed(self) -> bool:
        return find_spec(self.package) is not None

    @property
    def module(self) -> ModuleType:
        return import_module(f"tests.frameworks.{self.table}")

    def rows(self) -> Sequence[Row]:
        return self.module.ROWS

    def excluded(self) -> Mapping[str, str]:
        """Return the public layers without a row, with the reason."""
        return self.module.EXCLUDED if self.listed else {}


FRAMEWORKS = (
    Framework("Equinox", "equinox", "equinox", {"MLP", "Conv2d", "MultiheadAttention, causal"}),
    Framework("Flax Linen", "flax", "linen", {"Embed", "GroupNorm"}),
    Framework("Flax NNX", "flax", "nnx", {"BatchNorm, between convolutions", "RMSNorm"}),
    Framework("Haiku", "haiku", "haiku", {"LayerNorm", "MaxPool"}),
    Framework("Keras 3", "keras", "keras", {"Dense", "UpSampling2D, bilinear", "GRU", "PReLU"}),
    Framework("Brax", "brax", "policies", {"PPO policy"}, listed=False),
    Framework("jraph", "jraph", "graphs", {"GAT"}),
    Framework("optax", "optax", "training", {"adam"}, listed=False),
)
