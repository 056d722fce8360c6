"""What the oldest JAX has not says since when there is: it is skipped there with that reason."""

import re

import jax
import pytest


def since(version: str) -> pytest.MarkDecorator:
    """A mark of what needs a version of JAX."""
    older = jax.__version_info__ < tuple(map(int, re.findall(r"\d+", version)))
    return pytest.mark.skipif(older, reason=f"of jax >= {version}")


def needs(version: str) -> tuple[pytest.MarkDecorator, ...]:
    """Marks of a row, whose field may be empty."""
    return (since(version),) if version else ()
