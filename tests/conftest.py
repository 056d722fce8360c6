"""Seeded checkpoints in the published layout, and the reference's outputs for them."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import jax
import numpy as np
import pytest
from jaxtyping import install_import_hook

# Before anything imports the models: their shape annotations are checked in every test.
install_import_hook(["zoo.models"], "beartype.beartype")

from tests.seeded import TINY7B, state_of  # noqa: E402
from tests.siege.world import Run, watched  # noqa: E402
from tests.synthetic import digest, save_pth  # noqa: E402
from weights.initializers import Float32, Shape  # noqa: E402
from weights.namings.meta_names import DINOV3_VIT  # noqa: E402
from zoo import info  # noqa: E402
from zoo.checkpoints.load import model_shapes  # noqa: E402
from zoo.models.config import ViTConfig  # noqa: E402

GOLDEN = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Golden:
    """A seeded checkpoint, and the shapes of the leaves of its model."""

    shapes: dict[str, Shape]
    state: dict[str, Float32]
    path: Path


def make_golden(variant: str, config: ViTConfig, path: Path) -> Golden:
    expected = np.load(GOLDEN / f"{variant}.npz")
    state = state_of(config, DINOV3_VIT, int(expected["seed"]))
    assert digest(state) == str(expected["state_sha256"]), "another stream of random numbers"
    save_pth(path, state)
    return Golden(model_shapes(config), state, path)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slice",
        metavar="SEED/SIZE",
        help="of the chosen tests, one in so many: which, follows from the seed and their names",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say which case of a sampled test belongs to which tier, and take the slice asked for.

    Of so many cases one is left in the default tier, of 0 none; of the rest, `full` says how many.
    Names decide it, not places: a row that is added to a table moves no other.
    """
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("sampled"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for group in cases.values():
        mark = group[0].get_closest_marker("sampled")
        (size,), full = mark.args, mark.kwargs.get("full", 8)
        chosen = {item for item in group if size and drawn(item, size)}
        if size and not chosen:
            chosen = {min(group, key=number)}
        for item in group:
            if item not in chosen:
                item.add_marker("full" if drawn(item, full, "full") else "hunt")
    if chosen := config.getoption("--slice"):
        seed, _, size = chosen.rpartition("/")
        items[:] = [item for item in items if drawn(item, int(size), seed)]


def number(item: pytest.Item, seed: str = "") -> int:
    """A number that the name alone gives, whatever stands beside it."""
    return crc32(f"{seed} {item.name}".encode())


def drawn(item: pytest.Item, size: int, seed: str = "") -> bool:
    """Whether a test is one of so many."""
    return number(item, seed) % size == 0


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


@pytest.fixture(scope="session")
def run() -> Iterator[Run]:
    """Runs a command that is watched. The server that forks for it knows one hub from its start."""
    with watched() as run:
        yield run
