"""Operations by name. Each is made once, so that two are one where they are one object."""

from __future__ import annotations

from typing import Any

from converter.graph.op import Op

_known: dict[str, Op] = {}
_named: dict[str, Op] = {}


def known(name: str, **traits: Any) -> Op:
    """One of JAX's or of ours, stated in this package."""
    assert name not in _known, f"{name} is stated twice"
    return _known.setdefault(name, Op(name, **traits))


def of_jax(name: str) -> Op:
    """A primitive of JAX's; nothing is known of one that is not stated here."""
    return _known.get(name) or _known.setdefault(name, Op(name))


def named(op: Op | str) -> Op:
    """What somebody outside means by a name: one of JAX's or ours, or their own."""
    if isinstance(op, Op):
        return op
    return _known.get(op) or _named.setdefault(op, Op(op, "user"))


def stated() -> tuple[Op, ...]:
    """Every operation that is known by name."""
    return tuple(_known.values())
