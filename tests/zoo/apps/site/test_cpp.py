"""The programs in C++ that pages show, compiled against ONNX Runtime and run."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from zoo.apps.site.catalogue import build_catalogue
from zoo.apps.site.folders import read_folders
from zoo.apps.site.pages import render_pages
from zoo.cli.app import app
from zoo.cli.console import run_command
from zoo.common.progress import LogProgress

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[4]
HEADER, DEBIAN = "onnxruntime_cxx_api.h", "/usr/include/onnxruntime"
SHOWN = re.compile(r'aria-label="C\+\+"><code>(.*?)</code>', re.DOTALL)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What a program says in a folder, which is compiled with the library of Python's package."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler here: `apt-get install g++` brings one")
    command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-isystem{DEBIAN}"]
    tried = [*command, "-fsyntax-only", "-include", HEADER, "-xc++", "/dev/null"]
    if subprocess.run(tried, capture_output=True).returncode:
        pytest.skip(
            f"there is no {HEADER} here: `apt-get install libonnxruntime-dev` brings it from "
            "Debian 13 on, and CPLUS_INCLUDE_PATH names another folder that has it"
        )
    library = next(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"), None)
    if library is None:
        pytest.skip("this package of onnxruntime holds no library that programs in C++ can link")
    place = tmp_path_factory.mktemp("cpp")
    # Programs look for it under the name that has the first number of its version only.
    (place / "libonnxruntime.so.1").symlink_to(library)

    def said(text, folder):
        (place / "use.cpp").write_text(text)
        linked = [place / "libonnxruntime.so.1", f"-Wl,-rpath,{place}"]
        subprocess.run([*command, place / "use.cpp", "-o", place / "use", *linked], check=True)
        return subprocess.check_output([place / "use"], cwd=folder, text=True).split()

    return said


@pytest.fixture(scope="module")
def of_bytes(tmp_path_factory):
    """A folder whose file takes RGB of 8 bits."""
    place = tmp_path_factory.mktemp("of_bytes")
    options = ("--input", "uint8", "--variant", "fp32", "--offline", "--out", str(place))
    assert run_command(app, ["build", "vit_digits", *options]) == 0
    return place / "vit_digits"


FED = {
    "digits": np.zeros((1, 3, 8, 8), np.float32),
    "pictures": np.zeros((1, 3, 224, 224), np.float32),
    "of bytes": np.zeros((1, 8, 8, 3), np.uint8),
}


@pytest.mark.parametrize("which", FED)
def test_the_program_of_a_page_gives_what_python_gives(which, said, folders, of_bytes):
    folder = dict(zip(FED, (*folders[:2], of_bytes), strict=True))[which]
    models = read_folders([folder], LogProgress())
    page = render_pages(models, build_catalogue(models, LogProgress()), 0, None, {})[
        f"{folder.name}.html"
    ]
    (shown,) = SHOWN.findall(page)
    *shape, first = said(html.unescape(shown), folder)
    session = onnxruntime.InferenceSession(folder / "onnx" / "model.onnx")
    (logits,) = session.run(["logits"], {session.get_inputs()[0].name: FED[which]})
    assert [int(side) for side in shape] == list(logits.shape)
    # It prints six digits.
    assert float(first) == pytest.approx(float(logits[0, 0]), rel=1e-5)


def test_the_program_of_the_documentation_runs(said, folders):
    page = (ROOT / "docs" / "how-to" / "runtimes.md").read_text()
    (shown,) = re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)
    assert said(shown, folders[1] / "onnx") == []
