"""JSON files with a byte order mark and in UTF-16, as Windows and PowerShell's `>` write them.

Every reader has to return the same value as for plain UTF-8.
"""

import json

import pytest

from weights.containers.safetensors import read_object
from weights.files import Checkpoint
from zoo.checkpoints.settings.settings_files import CONFIG, PROCESSOR, read_settings
from zoo.texts.tokenizer import SETTINGS, WORDS, read_tokenizer_settings, read_words


def read_num_heads(folder):
    """Return the number of attention heads in the settings file of a folder."""
    return read_settings(Checkpoint(folder, "", (), {})).settings.num_attention_heads


def read_picture_size(folder):
    """Return the picture size in the settings file of a folder."""
    return read_settings(Checkpoint(folder, "", (), {})).pictures.size


READERS = {
    CONFIG: (read_num_heads, {"num_attention_heads": 7}, 7),
    PROCESSOR: (
        read_picture_size,
        {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 48}},
        (32, 48),
    ),
    WORDS: (lambda folder: json.loads(read_words(folder)), {"a": "é"}, {"a": "é"}),
    SETTINGS: (lambda folder: read_tokenizer_settings(folder)[1], {"pad": "é"}, {"pad": "é"}),
    "model.safetensors.index.json": (
        lambda folder: read_object(folder / "model.safetensors.index.json"),
        {"weight_map": {"a": "b"}},
        {"weight_map": {"a": "b"}},
    ),
}

"""The reader and the content of every file, and the value that the reader has to return."""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", READERS)
def test_a_mark_is_no_part_of_the_text(name, encoding, tmp_path):
    read, content, expected = READERS[name]
    (tmp_path / name).write_bytes(json.dumps(content, ensure_ascii=False).encode(encoding))
    assert read(tmp_path) == expected
