"""README: its Python runs as it stands, where weights and pictures are."""

import re
from pathlib import Path

import pytest

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
    """`zoo.load` needs a hub; tests/zoo/hub/test_load.py has one."""
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
