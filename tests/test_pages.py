"""Pages of the documentation: what they show is run, and the reference has every public name.

A block behind a comment `<!-- needs … -->` is not run, and the comment says why.
"""

import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import converter
import weights
import zoo
from zoo.cli.app import app
from zoo.cli.console import call
from zoo.images.photograph import photographs

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("docs/*/*.md")])
BLOCK = re.compile(r"^(<!-- needs [^>]+ -->\n)?```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page):
    """Language and text of what is run; `console` is how the page of commands shows their use."""
    found = BLOCK.findall(page.read_text())
    return [(kind, text) for needs, kind, text in found if not needs and kind != "console"]


@pytest.mark.full
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.stem)
def test_what_a_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    photographs(1)[0].save("cat.png")
    names: dict[str, object] = {}
    with converter.extensions():  # a page may register some
        run(page, names)


def run(page, names):
    for kind, text in blocks(page):
        if kind == "sh":
            for line in text.replace("\\\n", " ").splitlines():
                program, *arguments = line.replace("'", "").split()
                assert program == "zoo"
                assert call(app, arguments) == 0, line
        else:
            assert kind == "python"
            exec(compile(text, page.name, "exec"), names)


@pytest.mark.full
def test_the_page_of_commands():
    """`python -m typer zoo.cli.app utils docs --name zoo --output PAGE` writes it."""
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    command = [sys.executable, "-m", "typer", "zoo.cli.app", "utils", "docs", "--name", "zoo"]
    made = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True).stdout
    assert page.strip() == made.strip()


@pytest.mark.full
def test_the_site_builds_and_has_every_public_name(tmp_path):
    pytest.importorskip("zensical", reason="the documentation site needs the extra [docs]")
    copied = ("converter", "weights", "zoo", "docs")
    for name in copied:
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout + done.stderr
    assert "No issues found" in said and "griffe" not in said
    inventory = (tmp_path / "site" / "objects.inv").read_bytes().split(b"zlib.\n", 1)[1]
    described = {line.split()[0] for line in zlib.decompress(inventory).decode().splitlines()}
    for module in (converter, weights, zoo):
        public = {f"{module.__name__}.{name}" for name in module.__all__ if name != "__version__"}
        assert public <= described
