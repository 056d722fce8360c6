"""The Python blocks of README run as they are, in a folder with pictures and weights."""

import sys
from pathlib import Path

import pytest

from tests import folders
from tests.code_blocks import code_blocks
from tests.command import Command
from tests.hub_server import hub_of, serving
from zoo.architectures.builder import abstract
from zoo.export.make import convert_model
from zoo.export.request import Signature
from zoo.images.photograph import photographs
from zoo.registry.lookup import info

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
ATTENTION, FEATURES, LOADED, MLP = code_blocks(README, "python")


@pytest.fixture
def folder(vits16, tmp_path, monkeypatch):
    """Change to a folder with two pictures. `ZOO_WEIGHTS_DIR` has the seeded checkpoint."""
    for name, picture in zip(("cat.png", "dog.png"), photographs(2), strict=True):
        picture.save(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_WEIGHTS_DIR", str(vits16.path.parent))
    return tmp_path


WRITTEN = [
    (ATTENTION, "attention.onnx"),
    pytest.param(FEATURES, "features.onnx", marks=pytest.mark.full),
    (MLP, "mlp.onnx"),
]


@pytest.mark.parametrize(("block", "written"), WRITTEN)
def test_a_block_runs(block, written, folder):
    namespace: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), namespace)
    assert [path.name for path in folder.glob("*.onnx")] == [written]
    assert block is not FEATURES or namespace["features"].shape == (2, 384)
    assert block is not ATTENTION or str(namespace["export"].report) == "1 node: 1 Attention"


@pytest.mark.full
def test_the_page_on_export_states_numbers_of_nodes():
    """The page has the numbers of nodes of files with open and with fixed size, at two opsets."""
    config = info("dinov3_vits16").config
    fixed_size, open_size = (
        [
            convert_model(abstract(config), opset, Signature(size, None)).report.nodes
            for opset in (18, 23)
        ]
        for size in ((224, 224), None)
    )
    page = (ROOT / "docs/how-to/export.md").read_text()
    assert (
        f"{open_size[0]} and {open_size[1]} instead of {fixed_size[0]} and {fixed_size[1]}"
        in " ".join(page.split())
    )


def test_the_block_on_folders_runs(folder):
    repository, files = "somebody/dinov3_vits16", folders.published(folders.contents())
    with serving(hub_of(repository, files)) as hub:
        program = [sys.executable, "-c", f"{LOADED}\nprint(features.shape)"]
        out, err = Command(folder, hub.url).start(program=program).communicate(timeout=60)
    assert out == "(1, 3)\n", err
