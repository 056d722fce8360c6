"""What is published: the archive of sources, the wheel that is built of it, and who wrote it."""

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
    done = subprocess.run(command, text=True, capture_output=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_of_the_sources_runs(tmp_path):
    """Built twice, as a package index gets them: what the first archive lacks, the second does."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", str(tmp_path), str(ROOT))
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        names = content.getnames()
    assert not [name for name in names if name.endswith((".onnx", ".pyc", ".pth"))]
    place = tmp_path / "installed"
    options = ("--no-deps", "-q", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "install", *options, "--target", str(place), str(archive))
    installed = {path.name for path in place.iterdir() if not path.name.endswith(".dist-info")}
    assert installed == {"bin", "converter", "weights", "zoo"}
    paths = {"PYTHONPATH": str(place), "HOME": str(tmp_path), "PATH": ""}
    told = run(sys.executable, "-P", "-m", "zoo", "list", cwd=tmp_path, env=paths)
    assert "dinov3_vits16" in told
    told = run(sys.executable, "-c", PROGRAM, cwd=tmp_path, env=paths).split()
    assert told[:3] == [str(place / "zoo" / "__init__.py"), __version__, "1000"]
    assert (tmp_path / "digits.onnx").is_file()


def zoo_without(place, left_out, *arguments, told=None):
    """`zoo` with what is installed here, except what these patterns fit, and a package in place."""
    place.mkdir()
    for path in Path(numpy.__file__).parents[1].iterdir():
        if not any(path.match(pattern) for pattern in left_out):
            (place / path.name).symlink_to(path)
    if told is not None:
        (place / told).mkdir()
        metadata = "Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 9.9\n"
        (place / told / "METADATA").write_text(metadata)
        (place / told / "top_level.txt").write_text("onnxruntime\n")
    environment = {"PYTHONPATH": f"{place}:{ROOT}", "HOME": str(place), "PATH": ""}
    command = (sys.executable, "-S", "-P", "-m", "zoo", *arguments)
    return subprocess.run(command, text=True, capture_output=True, env=environment, cwd=place)


def test_another_build_of_onnx_runtime(tmp_path):
    """One that is called otherwise and holds the same package, as `onnxruntime-gpu` does."""
    command = ("export", "vit_digits", "--no-verify", "--json")
    told = "onnxruntime_gpu-9.9.dist-info"
    done = zoo_without(tmp_path / "p", ["onnxruntime-*.dist-info"], *command, told=told)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["tools"]["onnxruntime"] == "9.9"


def test_no_onnx_runtime_at_all(tmp_path):
    left_out = ["onnxruntime", "onnxruntime-*.dist-info"]
    done = zoo_without(tmp_path / "p", left_out, "export", "vit_digits")
    said = "onnxruntime is not installed: `pip install onnxruntime`, or `onnxruntime-gpu` or "
    said = f"error: {said}`onnxruntime-directml` for those builds of it."
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip().splitlines()[-1] == said
    assert not list(tmp_path.glob("p/*.onnx"))


def test_what_is_declared():
    """No build of ONNX Runtime is required: two in one environment overwrite each other's files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [name for name in project["dependencies"] if name.startswith("onnxruntime")]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
