"""Whether a package is there, of those that not everybody who tests has."""

from importlib.metadata import PackageNotFoundError, version

import pytest


def need(package: str) -> None:
    """Skip a test without it."""
    try:
        version(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed: pip install -e '.[test]' brings it")
