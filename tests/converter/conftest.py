"""Fixtures of the converter's tests: a scope of extensions, and a fault in the written file."""

from collections.abc import Iterator

import pytest

import converter


@pytest.fixture
def scope() -> Iterator[None]:
    """Remove all extensions that a test registers when it ends."""
    with converter.extensions():
        yield


@pytest.fixture
def cosine_for_sine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the first Sin node of each file as Cos. The graph is not changed."""

    def break_model(model, target):
        next(n for n in model.graph if n.op_type == "Sin").op_type = "Cos"
        return model

    monkeypatch.setattr("converter.api.conversion.clean_up_model", break_model)
