"""README: its Python runs as it stands, where weights and pictures are."""

import re
import sys
from pathlib import Path

import pytest

from tests import folders
from tests.command import Command
from tests.hub_server import COMMIT, Hub, serving
from zoo.images.photograph import photographs

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_every_block_is_known():
    assert [re.search(r"zoo\.\w+|converter\.\w+", block)[0] for block in BLOCKS] == [
        "zoo.from_pretrained",
        "zoo.load",
        "converter.to_onnx",
    ]


@pytest.mark.parametrize("number", [0, 2])
def test_a_block_runs(number, vits16, tmp_path, monkeypatch):
    for name, picture in zip(("cat.png", "dog.png"), photographs(2), strict=True):
        picture.save(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_WEIGHTS_DIR", str(vits16.path.parent))
    namespace: dict[str, object] = {}
    exec(compile(BLOCKS[number], "README.md", "exec"), namespace)
    written = sorted(path.name for path in tmp_path.glob("*.onnx"))
    assert written == [["features.onnx"], [], ["mlp.onnx"]][number]
    if not number:
        assert namespace["features"].shape == (2, 384)


def test_the_block_on_folders_runs(tmp_path):
    repository, held = "somebody/dinov3_vits16", folders.published(folders.contents())
    photographs(1)[0].save(tmp_path / "cat.png")
    files = {f"{repository}@{COMMIT}/{name}": data for name, data in held.items()}
    with serving(Hub(files, branches={f"{repository}@main": [COMMIT]})) as hub:
        program = [sys.executable, "-c", f"{BLOCKS[1]}\nprint(features.shape)"]
        process = Command(tmp_path, hub.url).start(program=program)
        out, err = process.communicate(timeout=60)
    assert out == "(1, 3)\n", err
