"""The tokenizer of a checkpoint, which goes along with the files that take texts."""

from dataclasses import dataclass, replace
from pathlib import Path

from weights.errors import WeightsError
from weights.progress import Progress
from weights.sources import cache, hub
from zoo.checkpoints.convert import write_json
from zoo.checkpoints.source import Source
from zoo.checkpoints.weights_argument import Seed
from zoo.files.staging import write_text
from zoo.models.config import DualConfig
from zoo.models.text_config import TextConfig
from zoo.registry.entry import ModelInfo
from zoo.texts.tokenizer import SETTINGS, WORDS, read_tokenizer_settings, read_words

ADVICE = "Without it the folder has no tokenizer: put that of the checkpoint beside its weights."


@dataclass(frozen=True)
class Words:
    """A tokenizer's files, and how many words a text has."""

    folder: Path
    tokens: int


def find_words(
    source: Source | Seed, entry: ModelInfo, offline: bool, progress: Progress
) -> Words | None:
    """The tokenizer beside a checkpoint, or in its repository; None for images, and where there is
    none, which is said. **Raises** `BadFile` for one that cannot be used."""
    if isinstance(source, Seed) or not isinstance(entry.config, TextConfig | DualConfig):
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
        progress.note(f"{folder} has no {WORDS}. {ADVICE}")
        return None
    read_words(folder)
    read_tokenizer_settings(folder)
    return Words(folder, entry.config.words.tokens)


def fetched(file: hub.HubFile, progress: Progress) -> Path:
    """The folder of a file that is downloaded unless it is there."""
    path = hub.cached(file) or cache.kept(file)
    return (path or cache.fill(file, ADVICE, progress)[0]).parent


def write_words(stage: Path, words: Words) -> tuple[str, ...]:
    """The tokenizer's files in `stage`, and their names. Its settings say how long texts are, for
    clients that ask nothing else."""
    write_text(stage / WORDS, read_words(words.folder))
    _, settings = read_tokenizer_settings(words.folder)
    usual = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>"}
    write_json(stage / SETTINGS, usual | settings | {"model_max_length": words.tokens})
    return WORDS, SETTINGS
