"""What is registered from outside: for an operation, or for what has a name."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from converter.ir.op import Op

T = TypeVar("T")


class Registry(Generic[T]):
    """Entries by operation or name. A name is a user's primitive, else what JAX or we call so."""

    def __init__(self) -> None:
        self._held: dict[Op | str, T] = {}

    def add(self, key: Op | str, value: T) -> None:
        self._held[key] = value

    def get(self, key: Op | str, default: T) -> T:
        return self._held.get(key, default)

    def find(self, op: Op, claimed: Collection[str] = ()) -> T | None:
        """Registered entry of an operation.

        ``claimed`` are the names of the users' own primitives in a program, which nothing else in
        it is meant by.
        """
        is_meant = op.domain == "user" or op.name not in claimed
        return self._held.get(op) or (self._held.get(op.name) if is_meant else None)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Forget what is registered meanwhile."""
        held = dict(self._held)
        try:
            yield
        finally:
            self._held = held


registered_rules: Registry[Mapping[int, Any]] = Registry()
"""By the opset that each begins at."""

expansions: Registry[Any] = Registry()
