"""Pages of the documentation: their examples run, the commands that they name exist, and the site
builds.

A block behind a comment `<!-- needs … -->` needs something that an empty folder lacks. `PROVIDERS`
has a function for each need that a test can provide. `ELSEWHERE` names, for every other need, the
test that runs the block or the reason why none does.
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
from tests.command import call_zoo
from tests.references.classifiers import OWN
from tests.seeded import state_of
from tests.synthetic import save_pth
from zoo.cli.app import app
from zoo.images.photograph import photographs

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[1]
PAGES = sorted({*ROOT.glob("docs/*.md"), *ROOT.glob("docs/*/*.md")})
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
BLOCK = re.compile(r"^(?:<!-- needs ([^>]+) -->\n)?```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN = {"sh", "python"}
"""Languages of the blocks that run here."""


def provide_checkpoint():
    """Write a checkpoint with the published file name and seeded numbers."""
    entry = zoo.info("dinov3_vits16")
    save_pth(Path(entry.checkpoint), state_of(entry.config, entry.namings[0], 0))


def provide_eqx():
    eqx.tree_serialise_leaves("model.eqx", zoo.from_pretrained("dinov3_vits16", weights="random"))


def provide_custom_checkpoint():
    OWN["vit"](Path("finetuned"))


def provide_folder():
    if importlib.util.find_spec("openvino") is None:
        pytest.skip("OpenVINO is not installed: install the extra [test]")
    command = ["build", "vit_digits", "--variant", "fp32", "--offline", "--out", "artifacts"]
    assert call_zoo(*command) == 0


def require_framework(package):
    if importlib.util.find_spec(package) is None:  # an import may require a backend
        pytest.skip(f"the package {package} is not installed: install the extra [frameworks]")


def require_npm():
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, from which a site's runtime comes")


PROVIDERS = {
    "Haiku": partial(require_framework, "haiku"),
    "Keras": partial(require_framework, "keras"),
    "npm": require_npm,
    "openvino": provide_folder,
    "such a file": provide_eqx,
    "weights of your own": provide_custom_checkpoint,
    "the named checkpoint": provide_checkpoint,
}

WITH_DIGEST = {"the named checkpoint"}
"""Needs whose checkpoint has a published name, which promises a digest."""

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
    """Return the language and the text of each block of a page that runs here and has this need."""
    page_blocks = BLOCK.findall(page.read_text())
    return [
        (kind, text)
        for block_needs, kind, text in page_blocks
        if block_needs == needs and kind in SHOWN
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_is_run_here_or_elsewhere(page):
    page_blocks = BLOCK.findall(page.read_text())
    assert page.read_text().count("```") == 2 * len(page_blocks)
    for needs, kind, _ in page_blocks:
        assert needs in {"", *PROVIDERS, *ELSEWHERE}
        assert kind in SHOWN or needs in ELSEWHERE, kind


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Change to an empty folder with a photograph. The folder is also the home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NPM_CONFIG_USERCONFIG", str(Path.home() / ".npmrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # The name of a published file promises a digest. The file that a test writes has another one.
    monkeypatch.setattr("weights.files.DIGEST_IN_NAME", re.compile("(?!)"))
    photographs(1)[0].save("cat.png")


ERROR_ROWS = re.compile(r"^\| `+ ?(.*?) ?`+ \| `+ ?(.*?) ?`+ \| `+ ?(.*?) ?`+ \|$", re.MULTILINE)
"""Rows of tables with code, the error or warning that it raises, and the corrected code."""


PAGES_WITH_MORE = [
    (page, needs)
    for page in PAGES
    for needs in ("", *PROVIDERS)
    if blocks(page, needs) and (needs in WITH_DIGEST or ERROR_ROWS.search(page.read_text()))
]
"""Pages, with a need, that have more to check than `test_a_page_is_followed_from_its_first_line`
does."""


@pytest.mark.parametrize(("page", "needs"), PAGES_WITH_MORE, ids=lambda it: getattr(it, "stem", it))
def test_errors_and_named_checkpoints_of_a_page(page, needs, home):
    """The code in a page's table of errors raises the stated error, and the corrected code runs.
    The blocks with a checkpoint of a published name run."""
    names = {}
    if needs:
        PROVIDERS[needs]()
        names |= {"eqx": eqx, "zoo": zoo}
    with converter.extensions():  # a page may register some
        for kind, text in blocks(page, needs):
            if kind == "python":
                exec(compile(text, page.name, "exec"), names)
            else:
                run_lines(text)
        for wrong, message, right in ERROR_ROWS.findall(page.read_text()):
            assert error_of(wrong, names).startswith(message)
            exec(right, names)


def error_of(wrong, names):
    """Return the error or warning that a statement raises; warnings are errors in tests."""
    try:
        exec(wrong, names)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


INSTALLATION = re.compile(
    r"^(git clone|cd|python3 -m venv|\.venv/bin/pip install) .*\n", re.MULTILINE
)
"""Lines of the first page that install this package, which is installed here already."""


def make_environment(folder):
    """Make the environment that the first page installs, from the installed packages."""
    environment = folder / ".venv"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "here.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    script = environment / "bin" / "zoo"
    # The script has pip's form: the process that measures a file's memory imports it again.
    program = "from zoo.cli import main\nif __name__ == '__main__':\n    main()\n"
    script.write_text(f"#!{environment}/bin/python\n{program}")
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
"""Run the blocks of a page as a reader does, with a shell and one Python process for the page."""


def test_the_first_page_is_followed_as_written(tmp_path):
    """The commands run in a shell whose PATH has nothing of this project until the page adds it."""
    make_environment(tmp_path)
    lines = []
    for _, kind, text in BLOCK.findall((ROOT / "docs" / "index.md").read_text()):
        text = INSTALLATION.sub("", text)
        lines.append(text if kind == "sh" else f"python - <<'END'\n{text}END\n")
    variables = {"PATH": os.defpath, "HOME": str(tmp_path)}
    command = [*SHELL, "".join(lines)]
    process = subprocess.run(command, cwd=tmp_path, env=variables, text=True, capture_output=True)
    assert process.returncode == 0, process.stderr
    assert "(1, 10)" in process.stdout


PROVIDED = {"", *PROVIDERS} - WITH_DIGEST
"""Needs that a reader of a page can provide."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_followed_from_its_first_line(page, home, tmp_path):
    """All blocks of a page run in order for a reader who has followed the first page and provides
    the page's needs."""
    page_blocks = BLOCK.findall(page.read_text())
    shown = [block for block in page_blocks if block[0] in PROVIDED and block[1] in SHOWN]
    if not shown:
        pytest.skip("no block of this page can run here")
    for needs in {needs for needs, _, _ in shown} - {""}:
        PROVIDERS[needs]()
    make_environment(tmp_path)
    inherited = ("NPM_CONFIG_USERCONFIG", "HF_HUB_OFFLINE")
    variables = {name: os.environ[name] for name in inherited} | {
        "PATH": os.defpath,
        "HOME": str(tmp_path),
    }
    command = [*SHELL, f"source .venv/bin/activate; python -c {shlex.quote(SESSION)}"]
    blocks_of_page = json.dumps([(kind, text) for _, kind, text in shown])
    process = subprocess.run(
        command, input=blocks_of_page, env=variables, text=True, capture_output=True
    )
    assert process.returncode == 0, process.stderr


def test_no_page_installs_this_project_from_a_package_index():
    """The project is not on a package index, so that a page that installs it from there is
    wrong."""
    for page in (*TEXTS, *(ROOT / "zoo").rglob("*.py"), *(ROOT / "zoo").rglob("*.jinja")):
        match = re.search(r"pip install [^\n]*jax-onnx-zoo\[[\w,]+\]['\"]", page.read_text())
        assert match is None, (page, match[0])


def run_lines(text):
    """Run the lines of a shell block, each of which is a `zoo` command."""
    for line in text.replace("\\\n", " ").splitlines():
        program, *words = map(os.path.expanduser, shlex.split(line))
        assert program == "zoo"
        arguments = [path for word in words for path in (sorted(glob.glob(word)) or [word])]
        assert call_zoo(*arguments) == 0, line


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
