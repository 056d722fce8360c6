"""Pages of the documentation: examples are run, links lead somewhere, and the site builds.

A block behind a comment `<!-- needs … -->` takes something that is not in an empty folder. What a
test can bring is in `BROUGHT`. The rest is in `ELSEWHERE`, with what runs it instead, or why
nothing does.
"""

import glob
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from functools import partial
from pathlib import Path

import equinox as eqx
import pytest
import typer
from typer.core import TyperGroup

import converter
import weights
import zoo
from tests.browser import served
from tests.references.classifiers import OWN
from tests.seeded import state_of
from tests.synthetic import save_pth
from zoo.cli.app import app
from zoo.cli.console import run_command
from zoo.images.photograph import photographs

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[1]
PAGES = sorted({*ROOT.glob("docs/*.md"), *ROOT.glob("docs/*/*.md")})
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
BLOCK = re.compile(r"^(?:<!-- needs ([^>]+) -->\n)?```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN = {"sh", "python"}
"""Languages that are run here."""


def bring_checkpoint():
    """The file that a page names, whose numbers are not the published ones."""
    entry = zoo.info("dinov3_vits16")
    save_pth(Path(entry.checkpoint), state_of(entry.config, entry.namings[0], 0))


def bring_eqx():
    eqx.tree_serialise_leaves("model.eqx", zoo.from_pretrained("dinov3_vits16", weights="random"))


def bring_own():
    OWN["vit"](Path("finetuned"))


def bring_folder():
    if importlib.util.find_spec("openvino") is None:
        pytest.skip("there is no OpenVINO here: the extra [test] brings it")
    command = ["build", "vit_digits", "--variant", "fp32", "--offline", "--out", "artifacts"]
    assert run_command(app, command) == 0


def bring_framework(package):
    if importlib.util.find_spec(package) is None:  # its import may ask for a backend first
        pytest.skip(f"there is no {package} here: the extra [frameworks] brings it")


def bring_npm():
    if shutil.which("npm") is None:
        pytest.skip("there is no npm here, which a site's runtime comes with")


BROUGHT = {
    "Haiku": partial(bring_framework, "haiku"),
    "Keras": partial(bring_framework, "keras"),
    "npm": bring_npm,
    "openvino": bring_folder,
    "such a file": bring_eqx,
    "weights of your own": bring_own,
    "the named checkpoint": bring_checkpoint,
}

PROMISING = {"the named checkpoint"}
"""The published name of a checkpoint promises its digest."""

ELSEWHERE = {
    "TensorRT": "nothing: there is no TensorRT where this project is tested, and the page says so",
    "a C++ compiler and ONNX Runtime's headers": "tests/zoo/apps/site/test_cpp.py compiles it",
    "a card": "tests/zoo/export/test_verify.py names a provider, without one",
    "a browser": "tests/test_clients.py and tests/zoo/apps/site/test_browser.py load folders so",
    "a cluster": "tests/zoo/apps/embed/test_stopped.py has one",
    "a dataset and that library": "tests/zoo/apps/embed/test_opened.py runs it",
    "a hub": "tests/zoo/artifacts/test_pull.py has one",
    "a hub and a token": "tests/zoo/artifacts/test_push.py has both",
    "a new environment": "tests/test_packages.py installs the archive, .ci/run the checkout",
    "pictures and a built folder": "tests/zoo/apps/embed/test_embed.py draws and makes them",
    "tract, OpenCV and IREE": "tests/runtimes/load.py does what they do, for every test there",
    "the extra [frameworks]: tests/frameworks runs it": "tests/frameworks, as the comment says",
}


def blocks(page, needs):
    """Language and text of what is run, of those that need the same."""
    found = BLOCK.findall(page.read_text())
    return [(kind, text) for wanted, kind, text in found if wanted == needs and kind in SHOWN]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_is_run_here_or_elsewhere(page):
    found = BLOCK.findall(page.read_text())
    assert page.read_text().count("```") == 2 * len(found)
    for needs, kind, _ in found:
        assert needs in {"", *BROUGHT, *ELSEWHERE}
        assert kind in SHOWN or needs in ELSEWHERE, kind


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a photograph, which is home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NPM_CONFIG_USERCONFIG", str(Path.home() / ".npmrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # Names of published files promise digests, which those that a test brings have not.
    monkeypatch.setattr("weights.files.DIGEST_IN_NAME", re.compile("(?!)"))
    photographs(1)[0].save("cat.png")


MET = re.compile(r"^\| `+ ?(.*?) ?`+ \| `+ ?(.*?) ?`+ \| `+ ?(.*?) ?`+ \|$", re.MULTILINE)
"""Rows that say what people write, the error or warning that they get, and what is right."""


SHOWING = [
    (page, needs)
    for page in PAGES
    for needs in ("", *BROUGHT)
    if blocks(page, needs) and (needs in PROMISING or MET.search(page.read_text()))
]
"""Pages of which `test_a_page_is_followed_from_its_first_line` does not do all."""


@pytest.mark.parametrize(("page", "needs"), SHOWING, ids=lambda it: getattr(it, "stem", it))
def test_what_a_page_shows(page, needs, place):
    """The errors that it says people meet, and what is done with a checkpoint of a known name."""
    names = {}
    if needs:
        BROUGHT[needs]()
        names |= {"eqx": eqx, "zoo": zoo}
    with converter.extensions():  # a page may register some
        for kind, text in blocks(page, needs):
            if kind == "python":
                exec(compile(text, page.name, "exec"), names)
            else:
                run_lines(text)
        for wrong, said, right in MET.findall(page.read_text()):
            assert met(wrong, names).startswith(said)
            exec(right, names)


def met(wrong, names):
    """The error, or the warning, which is one here."""
    try:
        exec(wrong, names)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


FETCHED = re.compile(r"^(git clone|cd|python3 -m venv|\.venv/bin/pip install) .*\n", re.MULTILINE)
"""Lines of the first page that bring this package, which is here already."""


def bring_environment(place):
    """What the first page installs, as far as it is here already."""
    environment = place / ".venv"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "here.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    script = environment / "bin" / "zoo"
    # As pip writes it: what measures a file's memory imports it again.
    started = "from zoo.cli import main\nif __name__ == '__main__':\n    main()\n"
    script.write_text(f"#!{environment}/bin/python\n{started}")
    script.chmod(0o755)


SHELL = ["bash", "-euo", "pipefail", "-c"]

SESSION = f"""
import json, subprocess, sys
names = {{}}
for kind, text in json.load(sys.stdin):
    if kind == "sh":
        subprocess.run([*{SHELL}, text], check=True)
    else:
        exec(text, names)
"""
"""Of a reader, who has a shell and one Python for all of a page."""


def test_the_first_page_is_followed_as_it_is_written(tmp_path):
    """In a shell whose PATH has nothing of ours until the page says how it gets there."""
    bring_environment(tmp_path)
    lines = []
    for _, kind, text in BLOCK.findall((ROOT / "docs" / "index.md").read_text()):
        text = FETCHED.sub("", text)
        lines.append(text if kind == "sh" else f"python - <<'END'\n{text}END\n")
    told = {"PATH": os.defpath, "HOME": str(tmp_path)}
    command = [*SHELL, "".join(lines)]
    done = subprocess.run(command, cwd=tmp_path, env=told, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "(1, 10)" in done.stdout


FOLLOWED = {"", *BROUGHT} - PROMISING
"""What a reader has."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_followed_from_its_first_line(page, place, tmp_path):
    """By somebody who has done the first page, and has what this page asks for."""
    given = BLOCK.findall(page.read_text())
    shown = [each for each in given if each[0] in FOLLOWED and each[1] in SHOWN]
    if not shown:
        pytest.skip("there is nothing on it that could be run here")
    for needs in {needs for needs, _, _ in shown} - {""}:
        BROUGHT[needs]()
    bring_environment(tmp_path)
    kept = ("NPM_CONFIG_USERCONFIG", "HF_HUB_OFFLINE")
    told = {name: os.environ[name] for name in kept} | {"PATH": os.defpath, "HOME": str(tmp_path)}
    command = [*SHELL, f"source .venv/bin/activate; python -c {shlex.quote(SESSION)}"]
    blocks_of_page = json.dumps([(kind, text) for _, kind, text in shown])
    done = subprocess.run(command, input=blocks_of_page, env=told, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_nothing_is_installed_from_an_index_that_has_nothing_of_ours():
    for page in (*TEXTS, *(ROOT / "zoo").rglob("*.py"), *(ROOT / "zoo").rglob("*.jinja")):
        found = re.search(r"pip install [^\n]*jax-onnx-zoo\[[\w,]+\]['\"]", page.read_text())
        assert found is None, (page, found[0])


def run_lines(text):
    """Lines of a shell, each of which is our command."""
    for line in text.replace("\\\n", " ").splitlines():
        program, *words = map(os.path.expanduser, shlex.split(line))
        assert program == "zoo"
        arguments = [path for word in words for path in (sorted(glob.glob(word)) or [word])]
        assert run_command(app, arguments) == 0, line


def test_the_site_builds_and_has_every_public_name(chromium):
    pytest.importorskip("zensical", reason="the documentation site needs the extra [docs]")
    command = [sys.executable, "docs/build.py"]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "No issues found" in said
    for module in (converter, weights, zoo):
        text = (ROOT / "site" / "reference" / module.__name__ / "index.html").read_text()
        described = set(re.findall(rf'<h2 id="{module.__name__}\.(\w+)"', text))
        assert described >= {*module.__all__} - {"__version__"}
    assert "The passes in their order" in (ROOT / "site/reference/passes/index.html").read_text()
    with served(ROOT / "site") as address:
        page, asked = chromium.new_page(), []
        page.on("request", lambda found: asked.append(found.url))
        page.goto(address)
        assert page.locator("article img").first.evaluate("image => image.naturalWidth") > 0
        page.goto(f"{address}coverage/")
        page.get_by_label("Find a primitive").fill("cumMAX rule")
        shown = page.locator("article tbody tr:visible").all_inner_texts()
        assert [row.split()[0] for row in shown] == ["cummax"]
        assert asked and [url for url in asked if not url.startswith(address)] == []


NAMED = re.compile(r"`(zoo \w[^`]*|(?:\.venv/bin/)?python (?:-m )?[\w./]+[^`]*)`")


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.stem)
def test_commands_that_a_text_names_are_there(page):
    """Inside of sentences and tables: the command and its options, or the program."""
    for line in NAMED.findall(page.read_text()):
        program, *words = shlex.split(line)
        if program == "zoo":
            assert_command(words)
            continue
        (name,) = [word for word in words if not word.startswith("-")][:1]
        module = "-m" in words
        assert importlib.util.find_spec(name) if module else (ROOT / name).is_file(), line


def assert_command(words):
    """Descend to the command; every option of the line is one of its own."""
    command = typer.main.get_command(app)
    while isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        assert words[0] in command.commands, words
        command = command.commands[words.pop(0)]
    options = {option for each in command.params for option in each.opts}
    named = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert named <= {*options, "--help"}, (command.name, words)
