"""Marks that skip a test with a reason if the installed JAX is too old for it."""

import re

import jax
import pytest


def since(version: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test on versions of JAX older than this one."""
    is_older = jax.__version_info__ < tuple(map(int, re.findall(r"\d+", version)))
    return pytest.mark.skipif(is_older, reason=f"of jax >= {version}")


def needs(version: str) -> tuple[pytest.MarkDecorator, ...]:
    """Return the marks for a version of JAX, which is empty if every version will do."""
    return (since(version),) if version else ()
