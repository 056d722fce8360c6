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

from zoo.version import __version__

ROOT = Path(__file__).parents[1]


def run(*command, **options):
    done = subprocess.run(command, text=True, capture_output=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.full
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
    assert {path.name for path in place.iterdir() if not path.name.endswith(".dist-info")} == {
        *("bin", "converter", "weights", "zoo")
    }
    program = "import runpy, sys; sys.argv[0] = 'zoo'; runpy.run_module('zoo', run_name='__main__')"
    paths = {"PYTHONPATH": str(place), "HOME": str(tmp_path), "PATH": ""}
    assert "dinov3_vits16" in run(sys.executable, "-c", program, "list", cwd=tmp_path, env=paths)
    code = "import zoo; print(zoo.__file__, zoo.__version__)"
    told = run(sys.executable, "-c", code, cwd=tmp_path, env=paths).split()
    assert told == [str(place / "zoo" / "__init__.py"), __version__]
    code = "import zoo; print(len(zoo.info('vit5_small').class_names))"
    assert run(sys.executable, "-c", code, cwd=tmp_path, env=paths).split() == ["1000"]
    script = (
        "import zoo, converter, jax\n"
        "model = zoo.from_pretrained('vit_digits')\n"
        "print(zoo.to_onnx(model, 'digits.onnx'))\n"
    )
    run(sys.executable, "-c", script, cwd=tmp_path, env=paths)
    assert (tmp_path / "digits.onnx").is_file()


def packages_without(place, left_out):
    """A folder with what is installed here, except what these patterns fit."""
    place.mkdir()
    for path in Path(numpy.__file__).parents[1].iterdir():
        if not any(path.match(pattern) for pattern in left_out):
            (place / path.name).symlink_to(path)
    return place


def zoo_with(place, *arguments):
    """`zoo`, with the packages of a folder alone."""
    environment = {"PYTHONPATH": f"{place}:{ROOT}", "HOME": str(place), "PATH": ""}
    command = (sys.executable, "-S", "-P", "-m", "zoo", *arguments)
    return subprocess.run(command, text=True, capture_output=True, env=environment, cwd=place)


def test_another_build_of_onnx_runtime(tmp_path):
    """One that is called otherwise and holds the same package, as `onnxruntime-gpu` does."""
    place = packages_without(tmp_path / "packages", ["onnxruntime-*.dist-info"])
    told = place / "onnxruntime_gpu-9.9.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 9.9\n")
    (told / "top_level.txt").write_text("onnxruntime\n")
    done = zoo_with(place, "export", "vit_digits", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["tools"]["onnxruntime"] == "9.9"


def test_no_onnx_runtime_at_all(tmp_path):
    place = packages_without(tmp_path / "packages", ["onnxruntime", "onnxruntime-*.dist-info"])
    done = zoo_with(place, "export", "vit_digits")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.strip().splitlines()[-1] == (
        "error: onnxruntime is not installed: `pip install 'jax-onnx-zoo[cpu]'`, or `[gpu]` or "
        "`[directml]` for those builds of ONNX Runtime."
    )
    assert not list(place.glob("*.onnx"))


def test_no_build_of_onnx_runtime_is_required():
    """Two of them in one environment overwrite each other's files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [name for name in project["dependencies"] if name.startswith("onnxruntime")]
    for extra in ("cpu", "gpu", "directml"):
        (needed,) = project["optional-dependencies"][extra]
        assert needed.startswith("onnxruntime")


def test_the_citation_names_this_version():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__


@pytest.mark.parametrize("file", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda f: f.name)
def test_forms_and_workflows_can_be_read(file):
    content = yaml.safe_load(file.read_text())
    assert content
    for part in content.get("body", ()):
        assert part["attributes"]["label"] and part["id"]
