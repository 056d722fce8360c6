"""What is published: the archive of sources, the wheel that is built of it, and who wrote it."""

import subprocess
import sys
import tarfile
from pathlib import Path

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


def test_the_citation_names_this_version():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__


@pytest.mark.parametrize("file", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda f: f.name)
def test_forms_and_workflows_can_be_read(file):
    content = yaml.safe_load(file.read_text())
    assert content
    for part in content.get("body", ()):
        assert part["attributes"]["label"] and part["id"]
