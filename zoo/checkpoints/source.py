"""Read the weights that a request names, and open their checkpoint, without importing JAX."""

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from weights import Checkpoint, locate, open_checkpoint
from weights.parameters import parameter
from weights.progress import Progress
from weights.sources.hashing import hash_in_background
from weights.sources.hub import HubFile
from zoo.architectures.entry import ModelInfo
from zoo.common.errors import BadRequest
from zoo.common.options import OWN, Option, flag, weights_from
from zoo.registry.lookup import MODELS

TAKE = Option(
    "NAME",
    "Of several networks in a checkpoint, the one to take: a word before its tensors' names, such "
    "as teacher, ema or model. By default the averaged one.",
    OWN,
    default=False,
)
WITHOUT_HEAD = flag("Leave out the head on a checkpoint's network: features alone.", OWN)
ADAPTER_BASE = Option(
    "PATH", "The checkpoint on which the adapter (LoRA) at --weights was trained.", OWN, given=Path
)


@dataclass(frozen=True)
class SeededWeights:
    """Random weights."""

    value: int


@dataclass(frozen=True)
class GivenCheckpoint:
    """A checkpoint that somebody names, and how to read it.

    `take` names the network to take where there are several, by a part of what comes before its
    tensors' names. Without its head a network gives features alone. `name` is what somebody calls
    it, and `licence` its terms; both are empty where nobody said. `base` is the checkpoint on which
    an adapter was trained, where `path` is one.
    """

    path: Path
    take: str = ""
    without_head: bool = False
    name: str = ""
    licence: str = ""
    base: Path | None = None


Choice = Literal["auto"] | SeededWeights | GivenCheckpoint | Checkpoint
"""Weights: from the usual places, random, or from a file, which may be open already."""


@dataclass(frozen=True)
class AskedWeights:
    """Weights as a command is asked for them."""

    weights: Annotated[str, weights_from(True)] = "auto"
    take: Annotated[str, TAKE] = ""
    without_head: Annotated[bool, WITHOUT_HEAD] = False
    base: Annotated[Path | None, ADAPTER_BASE] = None
    name: Annotated[
        str,
        Option(
            "NAME",
            "What a checkpoint of your own is called, in file names, manifest and card.",
            OWN,
            default="the name of its file or folder",
        ),
    ] = ""
    licence: Annotated[
        str,
        Option(
            "NAME",
            "The licence of a checkpoint of your own: apache-2.0, mit, cc-by-4.0, cc-by-nc-4.0, or "
            "any other in words.",
            OWN,
            default="not stated",
        ),
    ] = ""

    @property
    def choice(self) -> Literal["auto"] | SeededWeights | GivenCheckpoint:
        """Choice that they mean. **Raises** `BadRequest`."""
        return read_weights(**vars(self))


def chosen_weights(weights: str | Choice) -> Choice:
    """Weights that may be words, as of `read_weights`, or what these mean."""
    return read_weights(weights) if isinstance(weights, str) else weights


def read_weights(weights: str, **how: Any) -> Literal["auto"] | SeededWeights | GivenCheckpoint:
    """`auto`, `random`, `random:SEED`, or the path of a file, with `how` to read it: the fields of
    `GivenCheckpoint`. **Raises** `BadRequest` for options of a file where no file is named."""
    chosen = _chosen(weights)
    if isinstance(chosen, Path):
        return GivenCheckpoint(chosen, **how)
    if said := [option for option, value in how.items() if value]:
        raise BadRequest(
            f"{parameter(said[0])} is about a checkpoint: name it with {parameter('weights')} PATH."
        )
    return chosen


def _chosen(text: str) -> Literal["auto"] | SeededWeights | Path:
    if text == "auto":
        return "auto"
    if text == "random":
        return SeededWeights(0)
    if text.startswith("random:"):
        seed = text.removeprefix("random:")
        if not re.fullmatch(r"\d{1,40}", seed, re.ASCII):
            raise BadRequest(
                f"{parameter('weights')} {text} has no seed: write a number, as in `random:7`."
            )
        return SeededWeights(int(seed))
    return Path(text).expanduser()


def open_given(asked: GivenCheckpoint) -> Checkpoint:
    """Checkpoint at a path; an adapter's, on its base. **Raises** a `WeightsError`."""
    if asked.base is None:
        return open_checkpoint(asked.path)
    # Only who has an adapter needs what merges one.
    from weights.adapters import with_adapter

    namings = (naming for entry in MODELS.values() for naming in entry.namings)
    renamed = dict.fromkeys(naming for naming in namings if naming.in_memory is not None)
    return with_adapter(asked.path, open_checkpoint(asked.base), renamed)


@dataclass(frozen=True)
class Source:
    """An open checkpoint, its sha256, and the file of a hub that it is, if it came from one."""

    checkpoint: Checkpoint
    sha256: Callable[[], str]
    file: HubFile | None = None


@contextmanager
def opened(
    choice: Choice, entry: ModelInfo, listener: Progress, offline: bool = False
) -> Generator[Source | SeededWeights]:
    """Weights for a model of the zoo. While the block runs, a thread computes their digest.
    **Raises** a `WeightsError` if there are none, or nothing that is read."""
    if isinstance(choice, SeededWeights):
        yield choice
        return
    checked, file = None, None
    if isinstance(choice, Checkpoint):
        checkpoint = choice
    elif isinstance(choice, GivenCheckpoint):
        checkpoint = open_given(choice)
    else:
        located = locate(entry.places, listener, offline)
        checkpoint, checked, file = open_checkpoint(located.path), located.sha256, located.source
    with (
        hash_in_background(checkpoint)
        if checked is None
        else nullcontext(lambda: checked) as digest
    ):
        yield Source(checkpoint, digest, file)
