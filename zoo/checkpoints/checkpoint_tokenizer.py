"""Find the tokenizer of a checkpoint: in its folder, or in the repository that it comes from."""

from dataclasses import dataclass, replace
from pathlib import Path

from weights.errors import WeightsError
from weights.progress import Progress
from weights.sources.fetch import fetch
from weights.sources.hub import HubFile, find_cached
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.source import OpenWeights, SeededWeights, open_weight_source, read_weights
from zoo.common.errors import BadRequest
from zoo.common.progress import progress_bar
from zoo.texts.tokenizer import (
    SETTINGS,
    WORDS,
    Tokenizer,
    read_tokenizer,
    read_tokenizer_settings,
    read_words,
)

WITHOUT_TOKENIZER = (
    "Texts cannot be used without it: put the checkpoint's tokenizer next to its weights."
)
"""End of messages about a missing tokenizer."""


@dataclass(frozen=True)
class TokenizerFiles:
    """Files of a tokenizer.

    Arguments:
        folder: folder that contains the files.
        tokens: number of tokens of each text, with padding.
    """

    folder: Path
    tokens: int


def find_tokenizer_files(
    source: OpenWeights | SeededWeights, entry: ModelInfo, offline: bool, progress: Progress
) -> TokenizerFiles | None:
    """Return the tokenizer files (`tokenizer.json`, `tokenizer_config.json`) of a checkpoint.

    They are next to the checkpoint. If they are not and the checkpoint was downloaded from a hub,
    they are downloaded from the same repository, unless `offline`.

    Return None for random weights, for a network that takes no texts, and if there are no such
    files or they cannot be downloaded. The last two cases are reported through `progress`.

    **Raises** `BadFile` if a tokenizer cannot be used.
    """
    if isinstance(source, SeededWeights) or (texts := entry.config.texts) is None:
        return None
    path = source.checkpoint.path
    folder = path if path.is_dir() else path.parent
    if source.file is not None and not (folder / WORDS).is_file() and not offline:
        try:
            for name in (WORDS, SETTINGS):
                folder = fetch_folder(
                    replace(source.file, name=name, sha256=None, size=None), progress
                )
        except WeightsError as error:
            progress.note(str(error))
            return None
    if not (folder / WORDS).is_file():
        progress.note(f"{folder} has no {WORDS}. {WITHOUT_TOKENIZER}")
        return None
    read_words(folder)
    read_tokenizer_settings(folder)
    return TokenizerFiles(folder, texts.tokens)


def fetch_folder(file: HubFile, progress: Progress) -> Path:
    """Return the folder on this machine that contains a file of a hub.

    The file is downloaded if it is not in the cache. **Raises** a `WeightsError` if that fails.
    """
    return (find_cached(file) or fetch(file, WITHOUT_TOKENIZER, progress)[0]).parent


def load_tokenizer(name: str, weights: str) -> Tokenizer:
    """Return the tokenizer of a model, or of the network in a user's checkpoint.

    `name` is the model's name and `weights` the words of the option `--weights`: `auto`, `random`
    or the path of a checkpoint. **Raises** `BadRequest` if there is no tokenizer, and a `ZooError`
    or `WeightsError` if the model or its weights are not found.
    """
    entry, choice = find_entry(name, read_weights(weights))
    with progress_bar() as progress, open_weight_source(choice, entry, progress) as source:
        files = find_tokenizer_files(source, entry, False, progress)
    if files is None:
        raise BadRequest(
            f"{entry.name} has no tokenizer here, which labels need: take a model "
            "of `zoo list '*_dual'`, and weights with their tokenizer.json next to them."
        )
    return read_tokenizer(files.folder, files.tokens)
