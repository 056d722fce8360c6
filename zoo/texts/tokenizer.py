"""Texts as numbers of words, by the files of a checkpoint's tokenizer."""

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
LARGEST_VOCABULARY = 256 << 20  # bytes; Gemma's 256,000 words are 34 MB


class AddedWord(Model):
    """A word that has more settings than its letters."""

    content: Line


class TokenizerSettings(Model):
    """`tokenizer_config.json`, as far as it is used here."""

    pad_token: Line | AddedWord = "<pad>"
    padding_side: Literal["left", "right"] = "right"

    @property
    def pad(self) -> str:
        """The word that a shorter text is filled up with."""
        return self.pad_token if isinstance(self.pad_token, str) else self.pad_token.content


@dataclass(frozen=True)
class Tokenizer:
    """Makes `input_ids` of texts: all of the length of a network's, cut or padded; and the
    `attention_mask` of some networks, which is 1 for words and 0 for padding."""

    backend: tokenizers.Tokenizer

    def __call__(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Numbers `[texts, tokens]`. **Raises** `BadRequest` for something that is no texts."""
        return self.encoded(texts)["input_ids"]

    def encoded(self, texts: Sequence[str]) -> dict[str, NDArray[np.int64]]:
        """Both by their names. **Raises** as a call."""
        asked = [texts] if isinstance(texts, str) else list(texts)
        if not asked or not all(isinstance(text, str) for text in asked):
            raise BadRequest(f"got {ascii(texts)[:80]} for texts: give strings, at least one.")
        encodings = self.backend.encode_batch(asked)
        return {
            "input_ids": np.array([each.ids for each in encodings], np.int64),
            "attention_mask": np.array([each.attention_mask for each in encodings], np.int64),
        }


def read_tokenizer(folder: Path, tokens: int) -> Tokenizer:
    """The tokenizer in a folder, for texts of so many words. **Raises** `BadFile`, or
    `MissingLibrary` where the library that reads it is not installed."""
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
    except Exception as error:  # of no other class
        raise BadFile(
            f"{folder / WORDS} cannot be used ({first_line(error)}): take the checkpoint's own."
        ) from error
    pad = backend.token_to_id(settings.pad)
    if pad is None:
        raise BadFile(
            f"{folder / WORDS} has no word {settings.pad!r}, which {SETTINGS} pads with: take both "
            "files of one checkpoint."
        )
    backend.enable_truncation(tokens)
    backend.enable_padding(
        direction=settings.padding_side, pad_id=pad, pad_token=settings.pad, length=tokens
    )
    return Tokenizer(backend)


def read_words(folder: Path) -> str:
    """`tokenizer.json` of a folder. **Raises** `BadFile`."""
    path = folder / WORDS
    try:
        text = _content(path).decode()
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path} is no JSON: take the checkpoint's own.") from error
    return text


def read_tokenizer_settings(folder: Path) -> tuple[TokenizerSettings, dict[str, Any]]:
    """Settings of `tokenizer_config.json`, as far as it is used here, and all of it; the usual
    without one. **Raises** `BadFile`."""
    path = folder / SETTINGS
    if not path.exists():
        return TokenizerSettings(), {}
    content = _content(path)
    try:
        return TokenizerSettings.model_validate_json(content), json.loads(content)
    except ValidationError as error:
        trouble = first_fault(error)
        raise BadFile(f"{path} cannot be used: {trouble}. Take the checkpoint's own.") from error


def _content(path: Path) -> bytes:
    try:
        content = read_at_most(path, LARGEST_VOCABULARY + 1)
    except OSError as error:
        raise BadFile(
            f"{path} cannot be read ({error.strerror}): put the checkpoint's own there."
        ) from error
    if len(content) > LARGEST_VOCABULARY:
        raise BadFile(f"{path} is too large for a tokenizer: take the checkpoint's own.")
    return as_utf8(content)
