"""Rules and expansions that users register for an operation or for a name."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from converter.ir.op import Op

T = TypeVar("T")


class Registry(Generic[T]):
    """Entries that users registered by operation or by name, such as lowering rules.

    A name means the user's primitive of that name. If the program has none, it means the operation
    of JAX or of this converter.
    """

    def __init__(self) -> None:
        self._entries: dict[Op | str, T] = {}

    def add(self, key: Op | str, value: T) -> None:
        """Register an entry for an operation or a name. An earlier entry for the same key is
        replaced."""
        self._entries[key] = value

    def get(self, key: Op | str, default: T) -> T:
        """Return the entry that was registered with exactly this key, or ``default``."""
        return self._entries.get(key, default)

    def find(self, op: Op, user_op_names: Collection[str] = ()) -> T | None:
        """Return the entry that applies to an operation, or None if there is none.

        An entry for the operation itself comes before an entry for its name. ``user_op_names`` has
        the names of the users' primitives in a program. An entry for such a name does not apply to
        the operation of JAX or of this converter with the same name.
        """
        is_meant = op.domain == "user" or op.name not in user_op_names
        return self._entries.get(op) or (self._entries.get(op.name) if is_meant else None)

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Return a context manager that, on exit, restores the entries that existed on entry."""
        entries = dict(self._entries)
        try:
            yield
        finally:
            self._entries = entries


registered_rules: Registry[Mapping[int, Any]] = Registry()
"""Lowering rules, each by the first opset that it is for."""

expansions: Registry[Any] = Registry()
"""JAX functions that replace primitives."""
