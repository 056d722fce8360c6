"""The published archive of sources and the wheel that pip builds from it work, and the package
states its dependencies and its version."""

import json
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import numpy
import pytest
import yaml

from zoo.common.versions import __version__

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[1]
PROGRAM = """
import zoo
print(zoo.__file__, zoo.__version__, len(zoo.info("vit5_small").class_names))
zoo.to_onnx(zoo.from_pretrained("vit_digits"), "digits.onnx")
"""


def run(*command, **options):
    """Run a command, which has to succeed. Return what it prints."""
    process = subprocess.run(command, text=True, capture_output=True, **options)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_a_wheel_of_the_source_archive_runs(tmp_path):
    """The wheel is built from the archive of sources, as from a package index. A file that the
    archive lacks is missing in the wheel too."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", str(tmp_path), str(ROOT))
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        names = content.getnames()
    assert not [name for name in names if name.endswith((".onnx", ".pyc", ".pth"))]
    target = tmp_path / "installed"
    options = ("--no-deps", "-q", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(archive))
    installed = {path.name for path in target.iterdir() if not path.name.endswith(".dist-info")}
    assert installed == {"bin", "converter", "weights", "zoo"}
    paths = {"PYTHONPATH": str(target), "HOME": str(tmp_path), "PATH": ""}
    printed = run(sys.executable, "-P", "-m", "zoo", "list", cwd=tmp_path, env=paths)
    assert "dinov3_vits16" in printed
    printed = run(sys.executable, "-c", PROGRAM, cwd=tmp_path, env=paths).split()
    assert printed[:3] == [str(target / "zoo" / "__init__.py"), __version__, "1000"]
    assert (tmp_path / "digits.onnx").is_file()


def zoo_without(folder, left_out, *arguments, added=None):
    """Run `zoo` with the installed packages, except those that match the patterns `left_out`.
    `added` is the metadata folder of an invented package `onnxruntime-gpu` to add."""
    folder.mkdir()
    for path in Path(numpy.__file__).parents[1].iterdir():
        if not any(path.match(pattern) for pattern in left_out):
            (folder / path.name).symlink_to(path)
    if added is not None:
        (folder / added).mkdir()
        metadata = "Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 9.9\n"
        (folder / added / "METADATA").write_text(metadata)
        (folder / added / "top_level.txt").write_text("onnxruntime\n")
    environment = {"PYTHONPATH": f"{folder}:{ROOT}", "HOME": str(folder), "PATH": ""}
    command = (sys.executable, "-S", "-P", "-m", "zoo", *arguments)
    return subprocess.run(command, text=True, capture_output=True, env=environment, cwd=folder)


def test_another_build_of_onnx_runtime(tmp_path):
    """A package of another name that provides the module `onnxruntime`, such as `onnxruntime-gpu`,
    is sufficient."""
    command = ("export", "vit_digits", "--no-verify", "--json")
    added = "onnxruntime_gpu-9.9.dist-info"
    process = zoo_without(tmp_path / "p", ["onnxruntime-*.dist-info"], *command, added=added)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)[0]["tools"]["onnxruntime"] == "9.9"


def test_no_onnx_runtime_at_all(tmp_path):
    left_out = ["onnxruntime", "onnxruntime-*.dist-info"]
    process = zoo_without(tmp_path / "p", left_out, "export", "vit_digits")
    message = "onnxruntime is not installed: `pip install onnxruntime`, or `onnxruntime-gpu` or "
    message = f"error: {message}`onnxruntime-directml` for those builds of it."
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.strip().splitlines()[-1] == message
    assert not list(tmp_path.glob("p/*.onnx"))


def test_declared_dependencies_and_version():
    """No build of ONNX Runtime is required, because two builds in one environment overwrite each
    other's files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [name for name in project["dependencies"] if name.startswith("onnxruntime")]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
