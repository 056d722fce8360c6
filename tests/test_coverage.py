"""Every primitive of JAX has a rule, a function in its place, a wrapper or a reason; and the page
says so."""

import subprocess
import sys
from pathlib import Path

import jax
import pytest

from tests.coverage.primitives import primitives, ways

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"


def test_every_primitive_is_accounted_for():
    """A new release of JAX shows here what it brought."""
    found = primitives()
    assert sum(found.values()) > 180
    assert not sorted(found.keys() - ways().keys())


@pytest.mark.full
def test_the_page_is_current():
    """In a process of its own, so that it holds what JAX and Equinox bring in, and no more."""
    if f"JAX {jax.__version__} " not in PAGE.read_text():
        pytest.skip(f"docs/coverage.md is of another JAX than {jax.__version__}")
    command = [sys.executable, "-W", "ignore", "-m", "tests.coverage"]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert written == PAGE.read_text()
