"""Digests of files that are taken while the files are written."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


class Digests(dict[str, str]):
    """sha256 by name, of files as they were written last."""

    @contextmanager
    def taken(self) -> Generator[Callable[[str, bytes | memoryview], None]]:
        """Digests that are there once the files' names and bytes were told in order."""
        begun: defaultdict[str, Any] = defaultdict(hashlib.sha256)
        yield lambda name, piece: begun[name].update(piece)
        self.update({name: digest.hexdigest() for name, digest in begun.items()})
