"""Fixtures and hooks of all tests: seeded checkpoints in the published layout, a browser, commands,
and the choice of the tests to run."""

import gc
import itertools
import re
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jaxtyping import install_import_hook
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

# Python's garbage collector visits a million objects, most of which stay: run it less often.
gc.set_threshold(10_000, 20, 100)

if not hasattr(jax, "enable_x64"):  # before jax 0.8 it is in jax.experimental
    from jax.experimental import enable_x64

    jax.enable_x64 = enable_x64

# The hook checks the networks' shape annotations in every test. It has to be installed before the
# networks are imported.
ZOO = Path(__file__).parents[1] / "zoo"
NETWORKS = [
    ".".join(path.relative_to(ZOO.parent).with_suffix("").parts)
    for path in (ZOO / "architectures").rglob("*.py")
    if "from jaxtyping" in path.read_text()
]
install_import_hook(NETWORKS, "beartype.beartype")

from converter.errors import CheckError  # noqa: E402
from converter.verify.sessions import NEWEST_OPSET  # noqa: E402
from tests import tiers  # noqa: E402
from tests.browser import chromium_of_debian  # noqa: E402
from tests.seeded import TINY7B, state_of  # noqa: E402
from tests.siege.world import Run, watched  # noqa: E402
from tests.synthetic import digest, save_pth  # noqa: E402
from weights.initializers import Float32, Shape  # noqa: E402
from weights.namings.meta_names import DINOV3_VIT  # noqa: E402
from zoo import info  # noqa: E402
from zoo.architectures.vit.vit_config import ViTConfig  # noqa: E402
from zoo.checkpoints.load import model_shapes  # noqa: E402

GOLDEN = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Golden:
    """A seeded checkpoint, and the shapes of the leaves of its model."""

    shapes: dict[str, Shape]
    state: dict[str, Float32]
    path: Path


def make_golden(variant: str, config: ViTConfig, path: Path) -> Golden:
    """Write the seeded checkpoint of `golden/VARIANT.npz` to a path. Return it with its model's
    shapes. The digest of its tensors must be the stored one."""
    expected = np.load(GOLDEN / f"{variant}.npz")
    state = state_of(config, DINOV3_VIT, int(expected["seed"]))
    assert digest(state) == str(expected["state_sha256"]), "the drawn tensors differ"
    save_pth(path, state)
    return Golden(model_shapes(config), state, path)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--draw",
        metavar="SEED/COUNT/MINUTES",
        help="run COUNT tests drawn with SEED, and start none after MINUTES",
    )
    parser.addoption("--seed", type=int, default=1, help="seed of damaged files and commands")


WHOLLY_FULL = re.compile(r"^pytestmark = \[?pytest\.mark\.full\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files of which all tests are in the full tier when the default tier runs."""
    by_default = config.option.markexpr == "not full" and collection_path.suffix == ".py"
    return True if by_default and WHOLLY_FULL.search(collection_path.read_text()) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tiers.mark_full(items)


@pytest.hookimpl(trylast=True, specname="pytest_collection_modifyitems")
def pytest_draw(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Draw `--draw` tests from those that `-m` selects."""
    if chosen := config.getoption("--draw"):
        seed, count, minutes = chosen.split("/")
        items[:] = tiers.drawn(items, seed)[: int(count)]
        config.pluginmanager.register(tiers.Deadline(float(minutes)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Skip a test if the installed ONNX Runtime is too old to load its file."""
    try:
        return (yield)
    except (CheckError, Fail) as error:
        if "loads files of opsets up to" in str(error) or NEWEST_OPSET.search(str(error)):
            pytest.skip(str(error))
        raise


def pytest_sessionfinish() -> None:
    """Save coverage's measurements, because xdist ends its processes before coverage would."""
    coverage = sys.modules.get("coverage")
    if coverage and (measured := coverage.Coverage.current()):
        measured.stop()
        measured.save()


FINISHED = itertools.count(1)


def pytest_runtest_logfinish() -> None:
    """Clear JAX's caches after every 400 tests: most compiled functions are never called again."""
    if next(FINISHED) % 400 == 0:
        jax.clear_caches()


@pytest.fixture(scope="session")
def vits16(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """The seeded checkpoint of DINOv3 ViT-S/16 (86 MB). It is named like the repository, because
    the published file name promises a digest."""
    entry = info("dinov3_vits16")
    path = tmp_path_factory.mktemp("vits16") / Path(entry.repository).name
    return make_golden("dinov3_vits16", entry.config, path)


@pytest.fixture(scope="session")
def tiny7b(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """The seeded checkpoint of `TINY7B`."""
    path = tmp_path_factory.mktemp("tiny7b") / "tiny7b.pth"
    return make_golden("dinov3_tiny7b", TINY7B, path)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser for the session. Playwright can be started only once in a process."""
    with chromium_of_debian() as browser:
        yield browser


@pytest.fixture(scope="session")
def run() -> Iterator[Run]:
    """A function that runs a command and watches it. The server that forks its processes knows one
    hub from its start."""
    with watched() as run:
        yield run
