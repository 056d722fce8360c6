"""Whose a primitive is, told by the object and not by its name: users call theirs as they like."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from weakref import WeakSet

from jax.extend.core import Primitive

PACKAGES = ("jax", "equinox")
"""Whose primitives are attributes of their modules, all of which are in memory with them."""

_theirs: set[Primitive] = set()
_users: WeakSet[Primitive] = WeakSet()


def is_users(primitive: Primitive) -> bool:
    """Whether a primitive is neither of JAX's nor of Equinox's."""
    if primitive not in _theirs and primitive not in _users:
        _theirs.update(_held())
        if primitive not in _theirs:
            _users.add(primitive)
    return primitive in _users


def _held() -> Iterator[Primitive]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES and module is not None:
            yield from (v for v in vars(module).values() if isinstance(v, Primitive))
