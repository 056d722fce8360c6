"""The tokenizer of a checkpoint, which goes along with the files that take texts."""

from pathlib import Path

from zoo.checkpoints.checkpoint_tokenizer import Words
from zoo.checkpoints.convert import write_json
from zoo.common.staging import write_text
from zoo.texts.tokenizer import SETTINGS, WORDS, read_tokenizer_settings, read_words


def write_words(stage: Path, words: Words) -> tuple[str, ...]:
    """The tokenizer's files in `stage`, and their names. Its settings say how long texts are, for
    clients that ask nothing else."""
    write_text(stage / WORDS, read_words(words.folder))
    _, settings = read_tokenizer_settings(words.folder)
    usual = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>"}
    write_json(stage / SETTINGS, usual | settings | {"model_max_length": words.tokens})
    return WORDS, SETTINGS
