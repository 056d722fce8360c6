"""JSON files that are nested 100,000 levels deep. Each reader has to refuse them in a sentence."""

import pytest

from zoo.apps.embed.dataset import METADATA_KEY, read_description
from zoo.common.errors import BadFile
from zoo.texts.tokenizer import WORDS, read_words


def read_metadata(folder):
    (path,) = folder.iterdir()
    return read_description(path, {METADATA_KEY: path.read_bytes()})


READERS = {
    WORDS: (read_words, "is no JSON"),
    "x.lance": (read_metadata, "`zoo embed` did not write"),
}
"""The reader of every file, and words of the error."""


@pytest.mark.parametrize("name", READERS)
def test_deep_brackets(name, tmp_path):
    read, message = READERS[name]
    (tmp_path / name).write_bytes(b"[" * 100_000)
    with pytest.raises(BadFile, match=message):
        read(tmp_path)
