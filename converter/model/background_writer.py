"""Files that are written while what comes next is still being computed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

Put: TypeAlias = Callable[[bytes | memoryview], None]
"""Takes the next bytes of a file."""

Written: TypeAlias = Callable[[str, bytes | memoryview], None]
"""Is told the name of a file and its bytes in their order, from a thread of its own."""

WAITING = 8
"""Pieces that may wait to be written."""


@contextmanager
def behind(path: Path, written: Written | None = None) -> Generator[Put]:
    """A new file, which one thread writes; another one tells ``written`` what is in it.

    Not more than ``WAITING`` pieces wait. What goes wrong in a thread is raised by the call after
    it, or on the way out.
    """
    waiting: deque[list[Future[object]]] = deque()

    def settle() -> None:
        for future in waiting.popleft():
            future.result()

    threads = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
    with path.open("wb") as file, threads[0] as writer, threads[1] as teller:

        def put(piece: bytes | memoryview) -> None:
            if len(waiting) == WAITING:
                settle()
            waiting.append([writer.submit(file.write, piece)])
            if written is not None:
                waiting[-1].append(teller.submit(written, path.name, piece))

        yield put
        while waiting:
            settle()
