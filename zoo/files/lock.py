"""One build, pull or export of a place at a time."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from weights import lock
from weights.progress import Progress
from zoo.files.staging import writing


@contextmanager
def locked(destination: Path, progress: Progress) -> Generator[None]:
    """Have a file or folder alone while the block runs. **Raises** `BadOutput`."""
    with ExitStack() as stack:
        with writing(destination):
            stack.enter_context(lock.locked(destination, progress))
        yield
