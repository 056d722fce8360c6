"""The C++ programs of pages and of the documentation, compiled with ONNX Runtime and run."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.code_blocks import code_blocks
from tests.command import call_zoo
from zoo.apps.site.catalogue import build_catalogue
from zoo.apps.site.folders import read_folders
from zoo.apps.site.pages import render_pages
from zoo.common.progress import LogProgress

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[4]
HEADER, DEBIAN = "onnxruntime_cxx_api.h", "/usr/include/onnxruntime"
CPP_PROGRAM = re.compile(r'aria-label="C\+\+"><code>(.*?)</code>', re.DOTALL)


@pytest.fixture(scope="module")
def run_cpp(tmp_path_factory):
    """Return a function that compiles a program, runs it in a folder and returns its printed words.

    The program is linked with the library of Python's package. The test is skipped without a
    compiler, headers or library.
    """
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler: install one with `apt-get install g++`")
    command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-isystem{DEBIAN}"]
    trial = [*command, "-fsyntax-only", "-include", HEADER, "-xc++", "/dev/null"]
    if subprocess.run(trial, capture_output=True).returncode:
        pytest.skip(
            f"there is no {HEADER}: install it with `apt-get install libonnxruntime-dev` (Debian "
            "13 or later), or name a folder with it in CPLUS_INCLUDE_PATH"
        )
    library = next(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"), None)
    if library is None:
        pytest.skip("the onnxruntime package has no library that C++ programs can link")
    build_folder = tmp_path_factory.mktemp("cpp")
    # Programs look for the library under a name with the major version only.
    (build_folder / "libonnxruntime.so.1").symlink_to(library)

    def run_cpp(text, folder):
        (build_folder / "use.cpp").write_text(text)
        link_options = [build_folder / "libonnxruntime.so.1", f"-Wl,-rpath,{build_folder}"]
        subprocess.run(
            [*command, build_folder / "use.cpp", "-o", build_folder / "use", *link_options],
            check=True,
        )
        return subprocess.check_output([build_folder / "use"], cwd=folder, text=True).split()

    return run_cpp


@pytest.fixture(scope="module")
def uint8_folder(tmp_path_factory):
    """A built folder whose file takes uint8 RGB pixels."""
    folder = tmp_path_factory.mktemp("of_bytes")
    options = ("--input", "uint8", "--variant", "fp32", "--offline", "--out", str(folder))
    assert call_zoo("build", "vit_digits", *options) == 0
    return folder / "vit_digits"


INPUTS = {
    "digits": np.zeros((1, 3, 8, 8), np.float32),
    "pictures": np.zeros((1, 3, 224, 224), np.float32),
    "of bytes": np.zeros((1, 8, 8, 3), np.uint8),
}


@pytest.mark.parametrize("name", INPUTS)
def test_the_program_of_a_page_gives_what_python_gives(name, run_cpp, folders, uint8_folder):
    folder = dict(zip(INPUTS, (*folders[:2], uint8_folder), strict=True))[name]
    models = read_folders([folder], LogProgress())
    page = render_pages(models, build_catalogue(models, LogProgress()), 0, None, {})[
        f"{folder.name}.html"
    ]
    (program,) = CPP_PROGRAM.findall(page)
    *shape, first = run_cpp(html.unescape(program), folder)
    session = onnxruntime.InferenceSession(folder / "onnx" / "model.onnx")
    (logits,) = session.run(["logits"], {session.get_inputs()[0].name: INPUTS[name]})
    assert [int(side) for side in shape] == list(logits.shape)
    # The program prints six digits.
    assert float(first) == pytest.approx(float(logits[0, 0]), rel=1e-5)


def test_the_program_of_the_documentation_runs(run_cpp, folders):
    page = (ROOT / "docs" / "how-to" / "runtimes.md").read_text()
    (program,) = code_blocks(page, "cpp")
    assert run_cpp(program, folders[1] / "onnx") == []
