"""Pages of the documentation: their examples run, the commands that they name exist, and the site
builds.

A page states for a block that cannot run here why it is skipped, and has hidden code that writes
the files that its blocks read.
"""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

import converter
import weights
import zoo
from tests.browser import served
from zoo.cli.app import app
from zoo.images.photograph import photographs

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[1]
PAGES = sorted({*ROOT.glob("docs/*.md"), *ROOT.glob("docs/*/*.md")})
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]


@pytest.fixture
def home(tmp_path):
    """A folder with a photograph, which is also the home, and with the environment that the first
    page installs, made from the installed packages."""
    photographs(1)[0].save(tmp_path / "cat.png")
    venv.create(tmp_path / ".venv", symlinks=True)
    (packages,) = tmp_path.glob(".venv/lib/python*/site-packages")
    (packages / "here.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    script = tmp_path / ".venv" / "bin" / "zoo"
    script.write_text(f"#!{script.parent}/python\n{PROGRAM}")
    script.chmod(0o755)
    return tmp_path


PROGRAM = """\
import re
import weights.files
from zoo.cli import main

if __name__ == "__main__":
    weights.files.DIGEST_IN_NAME = re.compile("(?!)")
    main()
"""
"""The command `zoo`. The name of a published file promises a digest, which the checkpoints of tests
do not have, so that digests in names are not read."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_a_page_run(page, home):
    """All blocks of a page run in order for a reader who has followed the first page. A block may
    be skipped for a reason that the page states, or because something is not installed."""
    variables = {
        "PATH": f"{home}/.venv/bin:{os.defpath}",
        "HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "NPM_CONFIG_USERCONFIG": str(Path.home() / ".npmrc"),
    }
    command = ["python", "-P", str(ROOT / "tests" / "page_examples.py"), str(page)]
    process = subprocess.run(command, cwd=home, env=variables, text=True, capture_output=True)
    assert process.returncode == 0, process.stdout + process.stderr
    if missing := re.search(r"^skipped: (install .*)", process.stdout, re.MULTILINE):
        pytest.skip(missing[1])


def test_no_page_installs_this_project_from_a_package_index():
    """The project is not on a package index, so that a page that installs it from there is
    wrong."""
    for page in (*TEXTS, *(ROOT / "zoo").rglob("*.py"), *(ROOT / "zoo").rglob("*.jinja")):
        match = re.search(r"pip install [^\n]*jax-onnx-zoo\[[\w,]+\]['\"]", page.read_text())
        assert match is None, (page, match[0])


def test_the_site_builds_and_has_every_public_name(chromium):
    pytest.importorskip("zensical", reason="the documentation site needs the extra [docs]")
    command = [sys.executable, "docs/build.py"]
    process = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    printed = process.stdout + process.stderr
    assert process.returncode == 0, printed
    assert "No issues found" in printed
    for module in (converter, weights, zoo):
        text = (ROOT / "site" / "reference" / module.__name__ / "index.html").read_text()
        documented = set(re.findall(rf'<h2 id="{module.__name__}\.(\w+)"', text))
        assert documented >= {*module.__all__} - {"__version__"}
    assert "The passes in their order" in (ROOT / "site/reference/passes/index.html").read_text()
    with served(ROOT / "site") as address:
        page, requested = chromium.new_page(), []
        page.on("request", lambda request: requested.append(request.url))
        page.goto(address)
        assert page.locator("article img").first.evaluate("image => image.naturalWidth") > 0
        page.goto(f"{address}coverage/")
        page.get_by_label("Find a primitive").fill("cumMAX rule")
        rows = page.locator("article tbody tr:visible").all_inner_texts()
        assert [row.split()[0] for row in rows] == ["cummax"]
        assert requested and [url for url in requested if not url.startswith(address)] == []


COMMAND = re.compile(r"`(zoo \w[^`]*|(?:\.venv/bin/)?python (?:-m )?[\w./]+[^`]*)`")


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.stem)
def test_commands_that_a_text_names_exist(page):
    """Commands and programs in sentences and tables exist, and commands have the named options."""
    for line in COMMAND.findall(page.read_text()):
        program, *words = shlex.split(line)
        if program == "zoo":
            assert_command(words)
            continue
        (name,) = [word for word in words if not word.startswith("-")][:1]
        is_module = "-m" in words
        assert importlib.util.find_spec(name) if is_module else (ROOT / name).is_file(), line


def assert_command(words):
    """Assert that a command line's words name a command and only options of this command."""
    command = typer.main.get_command(app)
    while isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        assert words[0] in command.commands, words
        command = command.commands[words.pop(0)]
    options = {option for parameter in command.params for option in parameter.opts}
    named = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert named <= {*options, "--help"}, (command.name, words)
