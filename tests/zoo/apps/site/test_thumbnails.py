"""The thumbnail of a model whose output is no map shows the input of the golden numbers."""

import numpy as np
import pytest
from safetensors.numpy import save

from tests import folders
from zoo.apps.site.folders import read_folders
from zoo.apps.site.thumbnails import MAX_SIDE, draw_thumbnail
from zoo.common.errors import BadFile
from zoo.common.progress import LogProgress
from zoo.images.photograph import photograph

PICTURE = np.asarray(photograph().resize(folders.SIZE[::-1]), np.uint8)


def read_folder(path, channels):
    """Return a folder whose golden input is the picture with this number of channels."""
    pixels = (PICTURE / 255 - folders.MEAN) / folders.STD
    arrays = {
        "pixel_values": pixels.transpose(2, 0, 1)[None, :channels].astype(np.float32),
        "pooler_output": np.zeros((1, 3), np.float32),
    }
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    contents = folders.contents() | {"golden.safetensors": save(arrays)}
    speeds = {"runtime": "", "machine": "", "input": [1], "rounds": 1, "variants": {}}
    folders.write(path, folders.published(contents, speeds=speeds))
    (built,) = read_folders([path], LogProgress())
    return built


def test_a_thumbnail_shows_the_golden_input(tmp_path):
    thumbnail = draw_thumbnail(read_folder(tmp_path / "built", channels=3))
    drawn = np.asarray(thumbnail.picture.convert("RGB"), float)
    assert drawn.shape == PICTURE.shape and max(PICTURE.shape) <= MAX_SIDE
    # The palette has 64 colours. The picture differs from its mirror image by 33 on average.
    assert np.abs(drawn - PICTURE).mean() < 10
    assert thumbnail.caption == "The photograph of a cat"


def test_golden_inputs_without_three_channels_are_refused(tmp_path):
    with pytest.raises(BadFile, match="no picture of three channels"):
        draw_thumbnail(read_folder(tmp_path / "built", channels=2))
