"""Naming of Equinox's files after a model has named their records: leaves have their own paths."""

from weights.mapping import Naming, same_names
from weights.namings import conventions

_PATHS = (".".join(f"{{{part}}}" for part in "abcdefg"[:length]) for length in range(1, 8))

LEAVES = Naming(conventions.EQUINOX, same_names(*_PATHS))
