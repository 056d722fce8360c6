"""Leaves under their own paths: Equinox's files, once a tree has named their records."""

from weights.mapping import Naming, Rule

_PATHS = (".".join(f"{{{part}}}" for part in "abcdefg"[:length]) for length in range(1, 8))

LEAVES = Naming("eqx", tuple(Rule(path, (path,)) for path in _PATHS))
