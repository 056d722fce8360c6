"""Leaves under their own paths: Equinox's files, once a tree has named their records."""

from weights.mapping import Naming, same

_PATHS = (".".join(f"{{{part}}}" for part in "abcdefg"[:length]) for length in range(1, 8))

LEAVES = Naming("eqx", same(*_PATHS))
