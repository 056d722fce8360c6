"""Tokenize texts with the files of a checkpoint's tokenizer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from weights.opening import as_utf8, read_at_most
from zoo.common.errors import BadFile, BadRequest, MissingLibrary, first_line
from zoo.common.fields import Line, Model, first_fault

if TYPE_CHECKING:
    import tokenizers

WORDS, SETTINGS = "tokenizer.json", "tokenizer_config.json"
MAX_VOCABULARY_BYTES = 256 << 20  # bytes; Gemma's 256,000 words are 34 MB


class AddedWord(Model):
    """A word of a tokenizer. The other settings that a file may state about it are ignored."""

    content: Line


class TokenizerSettings(Model):
    """The fields of `tokenizer_config.json` that this package uses."""

    pad_token: Line | AddedWord = "<pad>"
    padding_side: Literal["left", "right"] = "right"

    @property
    def pad(self) -> str:
        """The word that fills up texts with fewer tokens than the network takes."""
        return self.pad_token if isinstance(self.pad_token, str) else self.pad_token.content


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer that cuts or pads each text to the number of tokens that a network takes.

    It computes `input_ids` and `attention_mask`, which is 1 for words and 0 for padding.
    """

    backend: tokenizers.Tokenizer

    def __call__(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return the `input_ids` of texts, `[texts, tokens]`.

        A single string is one text. **Raises** `BadRequest` if there is no text, or one that is not
        a string.
        """
        return self.encode(texts)["input_ids"]

    def encode(self, texts: Sequence[str]) -> dict[str, NDArray[np.int64]]:
        """Return `input_ids` and `attention_mask` of texts by name, each `[texts, tokens]`.

        A single string is one text. **Raises** `BadRequest` if there is no text, or one that is not
        a string.
        """
        sentences = [texts] if isinstance(texts, str) else list(texts)
        if not sentences or not all(isinstance(text, str) for text in sentences):
            raise BadRequest(f"got {ascii(texts)[:80]} for texts: give at least one string.")
        encodings = self.backend.encode_batch(sentences)
        return {
            "input_ids": np.array([encoding.ids for encoding in encodings], np.int64),
            "attention_mask": np.array([e.attention_mask for e in encodings], np.int64),
        }


def read_tokenizer(folder: Path, tokens: int) -> Tokenizer:
    """Return the tokenizer in a folder, which cuts or pads each text to `tokens` tokens.

    If the folder has no `tokenizer_config.json`, the default settings apply.

    **Raises** `BadFile` if `tokenizer.json` is missing, does not have the word that texts are
    padded with, or a file is damaged, and `MissingLibrary` if the library tokenizers is not
    installed.
    """
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise MissingLibrary(
            "texts need the library tokenizers, which is not installed: run "
            "`pip install tokenizers`."
        ) from error
    settings, _ = read_tokenizer_settings(folder)
    try:
        backend = tokenizers.Tokenizer.from_str(read_words(folder))
    except Exception as error:  # the library raises no narrower class
        raise BadFile(
            f"{folder / WORDS} cannot be used ({first_line(error)}): copy the checkpoint's file."
        ) from error
    pad = backend.token_to_id(settings.pad)
    if pad is None:
        raise BadFile(
            f"{folder / WORDS} has no word {settings.pad!r}, which {SETTINGS} pads with: copy both "
            "files from the same checkpoint."
        )
    backend.enable_truncation(tokens)
    backend.enable_padding(
        direction=settings.padding_side, pad_id=pad, pad_token=settings.pad, length=tokens
    )
    return Tokenizer(backend)


def read_words(folder: Path) -> str:
    """Return the text of the file `tokenizer.json` in a folder.

    **Raises** `BadFile` if it cannot be read, is too large, or is no JSON.
    """
    path = folder / WORDS
    try:
        text = _read_content(path).decode()
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path} is no JSON: copy the checkpoint's file.") from error
    return text


def read_tokenizer_settings(folder: Path) -> tuple[TokenizerSettings, dict[str, Any]]:
    """Return the settings in `tokenizer_config.json` of a folder, and the file's full content.

    The settings are the fields that this package uses. If the file does not exist, return the
    default settings and an empty dictionary.

    **Raises** `BadFile` if the file cannot be read or is invalid.
    """
    path = folder / SETTINGS
    if not path.exists():
        return TokenizerSettings(), {}
    content = _read_content(path)
    try:
        return TokenizerSettings.model_validate_json(content), json.loads(content)
    except ValidationError as error:
        fault = first_fault(error)
        raise BadFile(f"{path} cannot be used: {fault}. Copy the checkpoint's file.") from error


def _read_content(path: Path) -> bytes:
    """Return the bytes of a text file in UTF-8, without a byte order mark.

    **Raises** `BadFile` if the file cannot be read or is larger than `MAX_VOCABULARY_BYTES`.
    """
    try:
        content = read_at_most(path, MAX_VOCABULARY_BYTES + 1)
    except OSError as error:
        raise BadFile(
            f"{path} cannot be read ({error.strerror}): copy the checkpoint's file there."
        ) from error
    if len(content) > MAX_VOCABULARY_BYTES:
        raise BadFile(f"{path} is too large for a tokenizer: copy the checkpoint's file.")
    return as_utf8(content)
