"""The checkpoint that a request means: opened, and on its way to a digest. This costs no JAX."""

from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from weights import Checkpoint, locate, open_checkpoint
from weights.progress import Progress
from weights.sources.hashing import hashing
from weights.sources.hub import HubFile
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.given_checkpoint import open_given
from zoo.checkpoints.weights_argument import Choice, Given, Seed


@dataclass(frozen=True)
class Source:
    """An open checkpoint, its sha256, and the file of a hub that it is, if it came from one."""

    checkpoint: Checkpoint
    sha256: Callable[[], str]
    file: HubFile | None = None


@contextmanager
def opened(
    choice: Choice, entry: ModelInfo, listener: Progress, offline: bool = False
) -> Generator[Source | Seed]:
    """Weights for a model of the zoo. While the block runs, a thread computes their digest.
    **Raises** a `WeightsError` if there are none, or nothing that is read."""
    if isinstance(choice, Seed):
        yield choice
        return
    checked, file = None, None
    if isinstance(choice, Checkpoint):
        checkpoint = choice
    elif isinstance(choice, Given):
        checkpoint = open_given(choice)
    else:
        located = locate(entry.places, listener, offline)
        checkpoint, checked, file = open_checkpoint(located.path), located.sha256, located.source
    with hashing(checkpoint) if checked is None else nullcontext(lambda: checked) as digest:
        yield Source(checkpoint, digest, file)
