"""Leaves under their own paths: Equinox's files, once a tree has named their records."""

from weights.mapping import Naming, same
from weights.namings import conventions

_PATHS = (".".join(f"{{{part}}}" for part in "abcdefg"[:length]) for length in range(1, 8))

LEAVES = Naming(conventions.EQUINOX, same(*_PATHS))
