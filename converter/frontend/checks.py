"""Checks of Equinox's, which are conditions with a branch that raises: files never take it."""

from __future__ import annotations

from typing import Any


def unchecked(eqn: Any) -> Any:
    """The branch that is left of a condition without those that raise; ``None`` if none does."""
    branches = eqn.params["branches"]
    left = [branch for branch in branches if not _raises(branch)]
    return left[0] if len(left) == 1 < len(branches) else None


def _raises(branch: Any) -> bool:
    """Whether a branch calls Python of Equinox's: only its errors and breakpoints do."""
    called = [eqn for eqn in branch.jaxpr.eqns if eqn.primitive.name == "pure_callback"]
    return any(_is_equinox(eqn.params["callback"].callback_func) for eqn in called)


def _is_equinox(function: Any) -> bool:
    return bool(function.__module__.partition(".")[0] == "equinox")
