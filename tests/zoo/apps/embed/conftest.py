"""A folder with a network that is computed by hand, and pictures of many sizes."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from tests import folders

SIDE = {"name": "pooler_output", "dtype": "float32", "shape": ["n", 3]}
TAKEN = {"name": "pixel_values", "dtype": "float32", "shape": ["n", 3, *folders.SIZE]}


def stub_folder(place: Path, scale: float = 1) -> Path:
    """Built as by `zoo build`: its vectors are the scaled means of the normalised channels."""
    files = {"onnx/model.onnx": folders.mean_of_pixels(scale)}
    told = folders.manifest(files)
    for variant in told["variants"].values():
        variant |= {"inputs": [TAKEN], "outputs": [SIDE]}
    return folders.write(place, files | {"manifest.json": json.dumps(told).encode()})


def jpegs(count: int) -> dict[str, bytes]:
    """JPEGs by name, of 8 to 90 pixels, in three folders."""
    random, found = np.random.default_rng(5), {}
    for index in range(count):
        height, width = random.integers(8, 90, 2)
        pixels = random.integers(0, 256, (height, width, 3), np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=95)
        found[f"{'abc'[index % 3]}/{index:03d}.jpg"] = file.getvalue()
    return found


def by_hand(data: bytes, scale: float = 1) -> np.ndarray:
    """The vector of a picture, by Pillow and numpy."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    resized = image.resize(folders.SIZE[::-1], Image.Resampling.BILINEAR)
    pixels = np.asarray(resized, np.float64) / 255
    return scale * ((pixels - folders.MEAN) / folders.STD).mean((0, 1))


def write_tar(path: Path, files: dict[str, bytes]) -> None:
    """As WebDataset has them: a picture, and its label beside it."""
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            for each, content in ((name, data), (name.replace(".jpg", ".cls"), b"7")):
                member = tarfile.TarInfo(each)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def write_parquet(path: Path, files: dict[str, bytes]) -> None:
    """As the library datasets has them."""
    cells = [{"bytes": data, "path": name} for name, data in files.items()]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"label": [1] * len(cells), "key": [*files], "image": pa.array(cells, kind)})
    parquet.write_table(table, path, row_group_size=7)


@pytest.fixture(scope="session")
def pictures() -> dict[str, bytes]:
    return jpegs(40)


@pytest.fixture
def stub(tmp_path) -> Path:
    return stub_folder(tmp_path / "model")
