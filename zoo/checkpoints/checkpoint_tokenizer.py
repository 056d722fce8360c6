"""Find the tokenizer in a checkpoint's folder or in its repository."""

from dataclasses import dataclass, replace
from pathlib import Path

from weights.errors import WeightsError
from weights.progress import Progress
from weights.sources.fetch import fetch
from weights.sources.hub import HubFile, find_cached
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.source import SeededWeights, Source, opened, read_weights
from zoo.common.errors import BadRequest
from zoo.common.progress import bar
from zoo.texts.tokenizer import (
    SETTINGS,
    WORDS,
    Tokenizer,
    read_tokenizer,
    read_tokenizer_settings,
    read_words,
)

WITHOUT_TOKENIZER = "Without it there are no words: put that of the checkpoint beside its weights."


@dataclass(frozen=True)
class Words:
    """A tokenizer's files, and how many words a text has."""

    folder: Path
    tokens: int


def find_words(
    source: Source | SeededWeights, entry: ModelInfo, offline: bool, progress: Progress
) -> Words | None:
    """The tokenizer beside a checkpoint, or in its repository; None for images, and where there is
    none, which is said. **Raises** `BadFile` for one that cannot be used."""
    if isinstance(source, SeededWeights) or (texts := entry.config.texts) is None:
        return None
    path = source.checkpoint.path
    folder = path if path.is_dir() else path.parent
    if source.file is not None and not (folder / WORDS).is_file() and not offline:
        try:
            for name in (WORDS, SETTINGS):
                folder = fetched(replace(source.file, name=name, sha256=None, size=None), progress)
        except WeightsError as error:
            progress.note(str(error))
            return None
    if not (folder / WORDS).is_file():
        progress.note(f"{folder} has no {WORDS}. {WITHOUT_TOKENIZER}")
        return None
    read_words(folder)
    read_tokenizer_settings(folder)
    return Words(folder, texts.tokens)


def fetched(file: HubFile, progress: Progress) -> Path:
    """Return the folder of a file that is downloaded unless it is there."""
    return (find_cached(file) or fetch(file, WITHOUT_TOKENIZER, progress)[0]).parent


def tokenizer_of(name: str, weights: str) -> Tokenizer:
    """The tokenizer of a model by its name, or of whatever network is in a checkpoint.
    **Raises** `BadRequest` where there is none."""
    entry, choice = find_entry(name, read_weights(weights))
    with bar() as progress, opened(choice, entry, progress) as source:
        words = find_words(source, entry, False, progress)
    if words is None:
        raise BadRequest(
            f"{entry.name} has no tokenizer here, without which labels mean nothing: take a model "
            "of `zoo list '*_dual'`, and weights with their tokenizer.json beside them."
        )
    return read_tokenizer(words.folder, words.tokens)
