"""The converter handles every primitive of JAX by a rule, a decomposition or a wrapper, or gives a
reason for refusing it; and `docs/coverage.md` says so."""

import subprocess
import sys
from pathlib import Path

import jax
import pytest

from tests.coverage.primitives import primitives, ways

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"


def test_every_primitive_is_accounted_for():
    """The test fails if a new release of JAX has a primitive that is not handled."""
    counts = primitives()
    assert sum(counts.values()) > 180
    assert not sorted(counts.keys() - ways().keys())


@pytest.mark.full
def test_the_page_is_current():
    """The page is written in its own process, so that it has only the primitives that JAX and
    Equinox import."""
    if f"JAX {jax.__version__} " not in PAGE.read_text():
        pytest.skip(f"docs/coverage.md was written with another JAX than {jax.__version__}")
    command = [sys.executable, "-W", "ignore", "-m", "tests.coverage"]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert written == PAGE.read_text()
