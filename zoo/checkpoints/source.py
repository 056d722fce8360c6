"""Parse the weights that a request names, and open their checkpoint, without importing JAX."""

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
from zoo.common.options import CHECKPOINT_PANEL, Option, flag, weights_option
from zoo.registry.lookup import MODELS

TAKE = Option(
    "NAME",
    "Of several networks in a checkpoint, the one to take: a word before its tensors' names, such "
    "as teacher, ema or model. By default the averaged one.",
    CHECKPOINT_PANEL,
    default=False,
)
WITHOUT_HEAD = flag(
    "Leave out the head on a checkpoint's network: features alone.", CHECKPOINT_PANEL
)
ADAPTER_BASE = Option(
    "PATH",
    "The checkpoint on which the adapter (LoRA) at --weights was trained.",
    CHECKPOINT_PANEL,
    command_line_type=Path,
)


@dataclass(frozen=True)
class SeededWeights:
    """Request for random weights, drawn with the seed `seed`."""

    seed: int


@dataclass(frozen=True)
class GivenCheckpoint:
    """Request for a checkpoint of the user, with the options about it.

    Arguments:
        path: path of the checkpoint, a file or folder.
        take: which network to use if the checkpoint holds several: a word in the prefix of its
            tensors, such as `teacher`. Empty for the averaged one.
        without_head: whether the head is left out, so that the network returns features.
        name: name that the user gives to the model, or empty.
        licence: licence that the user states for the checkpoint, or empty.
        base: checkpoint on which the adapter (LoRA) at `path` was trained, or None if `path` is not
            an adapter.
    """

    path: Path
    take: str = ""
    without_head: bool = False
    name: str = ""
    licence: str = ""
    base: Path | None = None


WeightsChoice = Literal["auto"] | SeededWeights | GivenCheckpoint | Checkpoint
"""Weights of a request: `"auto"` for the standard folders, caches and hub, random weights, a user's
checkpoint, or a checkpoint that is open already."""


@dataclass(frozen=True)
class WeightsOptions:
    """Command-line options that select weights, as the user gave them."""

    weights: Annotated[str, weights_option(True)] = "auto"
    take: Annotated[str, TAKE] = ""
    without_head: Annotated[bool, WITHOUT_HEAD] = False
    base: Annotated[Path | None, ADAPTER_BASE] = None
    name: Annotated[
        str,
        Option(
            "NAME",
            "What a checkpoint of your own is called, in file names, manifest and card.",
            CHECKPOINT_PANEL,
            default="the name of its file or folder",
        ),
    ] = ""
    licence: Annotated[
        str,
        Option(
            "NAME",
            "The licence of a checkpoint of your own: apache-2.0, mit, cc-by-4.0, cc-by-nc-4.0, or "
            "any other in words.",
            CHECKPOINT_PANEL,
            default="not stated",
        ),
    ] = ""

    @property
    def choice(self) -> Literal["auto"] | SeededWeights | GivenCheckpoint:
        """Weights that the options request. **Raises** `BadRequest` for options that contradict
        each other or a seed that is not a number."""
        return read_weights(**vars(self))


def resolve_weights(weights: str | WeightsChoice) -> WeightsChoice:
    """Return the weights that a text such as `auto`, `random:7` or a path means.

    An argument that is not a text is returned as it is.
    """
    return read_weights(weights) if isinstance(weights, str) else weights


def read_weights(weights: str, **options: Any) -> Literal["auto"] | SeededWeights | GivenCheckpoint:
    """Return the weights that a text means: `auto`, `random`, `random:SEED`, or otherwise the path
    of a checkpoint.

    `options` are the other fields of `GivenCheckpoint`, for a path. **Raises** `BadRequest` if one
    of them is set without a path, and for a seed that is not a number.
    """
    choice = _parse_weights(weights)
    if isinstance(choice, Path):
        return GivenCheckpoint(choice, **options)
    if names_given := [name for name, value in options.items() if value]:
        raise BadRequest(
            f"{parameter(names_given[0])} is about a checkpoint: name it with "
            f"{parameter('weights')} PATH."
        )
    return choice


def _parse_weights(text: str) -> Literal["auto"] | SeededWeights | Path:
    """Return `"auto"`, the random weights of `random` (seed 0) or `random:SEED`, or the path that
    any other text means.

    **Raises** `BadRequest` for a seed that is not a number.
    """
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


def open_given_checkpoint(request: GivenCheckpoint) -> Checkpoint:
    """Open the checkpoint that a user names. If it is an adapter, it is merged into its base.

    **Raises** a `WeightsError` if it is not found or cannot be read.
    """
    if request.base is None:
        return open_checkpoint(request.path)
    # Imported here because only adapters need it.
    from weights.adapters import with_adapter

    namings = (naming for entry in MODELS.values() for naming in entry.namings)
    renamed = dict.fromkeys(naming for naming in namings if naming.in_memory is not None)
    return with_adapter(request.path, open_checkpoint(request.base), renamed)


@dataclass(frozen=True)
class OpenWeights:
    """An open checkpoint that weights are loaded from.

    Arguments:
        checkpoint: the checkpoint.
        sha256: function that returns the digest of its file. It may have to wait for the
            computation.
        file: file of a hub that it was downloaded from, or None.
    """

    checkpoint: Checkpoint
    sha256: Callable[[], str]
    file: HubFile | None = None


@contextmanager
def open_weight_source(
    choice: WeightsChoice, entry: ModelInfo, listener: Progress, offline: bool = False
) -> Generator[OpenWeights | SeededWeights]:
    """Open the weights that a request names, and yield them while the block runs.

    The digest of a file is computed in a thread meanwhile. Random weights are yielded unchanged.

    **Arguments:**

    - `choice`: the requested weights. For `"auto"` the published files of `entry` are searched for.
    - `entry`: registry entry of the model.
    - `listener`: reports progress.
    - `offline`: whether nothing is downloaded.

    **Raises** a `WeightsError` if no checkpoint is found or its format cannot be read.
    """
    if isinstance(choice, SeededWeights):
        yield choice
        return
    digest, file = None, None
    if isinstance(choice, Checkpoint):
        checkpoint = choice
    elif isinstance(choice, GivenCheckpoint):
        checkpoint = open_given_checkpoint(choice)
    else:
        located = locate(entry.published_files, listener, offline)
        checkpoint, digest, file = (
            open_checkpoint(located.path),
            located.sha256,
            located.source,
        )
    with (
        hash_in_background(checkpoint)
        if digest is None
        else nullcontext(lambda: digest) as compute_digest
    ):
        yield OpenWeights(checkpoint, compute_digest, file)
