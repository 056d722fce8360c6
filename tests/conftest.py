"""Seeded checkpoints in the published layout, and the reference's outputs for them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import pytest
from jaxtyping import install_import_hook

# Before anything imports the models: their shape annotations are checked in every test.
install_import_hook(["zoo.models"], "beartype.beartype")

from tests.loading import load  # noqa: E402
from tests.synthetic import digest, make_state, save_pth  # noqa: E402
from weights import bind, leaf_shapes  # noqa: E402
from weights.distributions import Float32, Shape  # noqa: E402
from weights.mapping import plan, source_shapes  # noqa: E402
from weights.namings.meta import DINOV3_VIT  # noqa: E402
from zoo import info  # noqa: E402
from zoo.models.build import abstract  # noqa: E402
from zoo.models.config import ViTConfig  # noqa: E402
from zoo.models.vit import VisionTransformer  # noqa: E402

GOLDEN = Path(__file__).parent / "golden"

TINY7B = ViTConfig(
    dim=256, depth=3, heads=2, hidden=512, ffn="swiglu", qkv_bias=False, untied_norms=True
)
"""All the switches of the 7B model at a small width; head_dim is its 128."""


@dataclass(frozen=True)
class Golden:
    """A seeded checkpoint, the model it belongs to, and what the reference makes of it."""

    config: ViTConfig
    expected: Mapping[str, np.ndarray]
    shapes: dict[str, Shape]
    state: dict[str, Float32]
    path: Path

    @property
    def model(self) -> VisionTransformer:
        """The model with the checkpoint's weights."""
        weights = load(self.path, self.shapes)
        return bind(abstract(self.config), weights.arrays)


def make_golden(variant: str, config: ViTConfig, path: Path) -> Golden:
    expected = np.load(GOLDEN / f"{variant}.npz")
    shapes = leaf_shapes(abstract(config))
    keys = source_shapes(plan(DINOV3_VIT.rules, shapes))
    state = make_state(keys, int(expected["seed"]))
    assert digest(state) == str(expected["state_sha256"]), "another stream of random numbers"
    save_pth(path, state)
    return Golden(config, expected, shapes, state, path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test that is sampled, the default tier runs one case in so many.

    It is one of every so many neighbours, at a place that moves on: of each form, say, another
    transformation. The full tier has one in `full` of the rest, in three if nothing is said. The
    hunt has the others.
    """
    seen, left = Counter[str](), Counter[str]()
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is None:
            continue
        name, (size,) = item.nodeid.partition("[")[0], mark.args
        group, place = divmod(seen[name], size)
        seen[name] += 1
        if place != group % size:
            left[name] += 1
            item.add_marker("hunt" if left[name] % mark.kwargs.get("full", 3) else "full")


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_functions() -> Iterator[None]:
    """A thousand small functions are compiled in a run; nobody calls them again."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="session")
def vits16(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """DINOv3 ViT-S/16 (86 MB), found by its repository's name; the file's promises a digest."""
    entry = info("dinov3_vits16")
    path = tmp_path_factory.mktemp("vits16") / Path(entry.repository).name
    return make_golden("dinov3_vits16", entry.config, path)


@pytest.fixture(scope="session")
def tiny7b(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """`TINY7B` as a file."""
    path = tmp_path_factory.mktemp("tiny7b") / "tiny7b.pth"
    return make_golden("dinov3_tiny7b", TINY7B, path)
