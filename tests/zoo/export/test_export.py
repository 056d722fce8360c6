"""Exports, checks and what they leave behind, through the command."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

ZOO = [sys.executable, "-c", "import sys; sys.argv[0] = 'zoo'; from zoo.cli import main; main()"]
EXPORT = [sys.executable, "-m", "zoo.export"]
NAME = "dinov3_vits16-opset23.onnx"
MANIFEST = "dinov3_vits16-opset23.manifest.json"


@pytest.fixture(autouse=True)
def no_weights_around(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("ZOO_WEIGHTS_DIR", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


def call(command, *arguments, cwd, code=0, **options):
    done = subprocess.run(
        [*command, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def exported(vits16, tmp_path_factory):
    """The main command on a checkpoint that it finds by itself, at two opsets."""
    folder = tmp_path_factory.mktemp("exported")
    environment = {
        **os.environ,
        "ZOO_WEIGHTS_DIR": str(vits16.path.parent),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = call(
        EXPORT,
        *("dinov3_vits16", "--opset", 23, "--opset", 18, "--json"),
        cwd=folder,
        env=environment,
    )
    return folder, json.loads(done.stdout)


def test_manifest(exported, vits16):
    folder, manifests = exported
    record = manifests[0]
    path = folder / NAME
    assert json.loads(path.with_suffix(".manifest.json").read_text()) == record
    assert record["files"] == [
        {
            "name": NAME,
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
    ]
    assert record["model"] == "dinov3_vits16" and record["complete"]
    (variant,) = record["variants"].values()
    assert list(record["variants"]) == ["fused"]
    assert (variant["files"], variant["opset"], variant["ir_version"]) == ([NAME], 23, 10)
    assert variant["inputs"] == [
        {"name": "pixel_values", "dtype": "float32", "shape": ["batch_size", 3, 224, 224]}
    ]
    assert [(output["name"], output["shape"]) for output in variant["outputs"]] == [
        ("last_hidden_state", ["batch_size", 201, 384]),
        ("pooler_output", ["batch_size", 384]),
    ]
    digest = hashlib.sha256(vits16.path.read_bytes()).hexdigest()
    assert record["weights"] == {
        "kind": "meta",
        "name": vits16.path.name,
        "sha256": digest,
        "rope_periods": "file",
        "is_published_file": False,
        "also_fits": ["eupe_vits16"],
    }
    assert record["preprocessing"]["mean"] == [0.485, 0.456, 0.406]
    assert variant["nodes"] == sum(variant["histogram"].values())
    assert str(folder) not in json.dumps(record)


def test_verification(exported):
    for name, record in zip(("fused", "fp32"), exported[1], strict=True):
        assert record["variants"][name]["near_misses"] == []
        verification = record["variants"][name]["verification"]
        assert verification["passed"]
        assert {c["batch"] for c in verification["comparisons"]} == {1, 3}
        assert {c["output"] for c in verification["comparisons"]} == {
            "last_hidden_state",
            "pooler_output",
        }
        assert all(0 < c["max_abs"] <= 1e-4 for c in verification["comparisons"])


def test_files_are_readable_by_others(exported):
    folder, _ = exported
    umask = os.umask(0)
    os.umask(umask)
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(
        f"dinov3_vits16-opset{n}.{e}" for n in (18, 23) for e in ("manifest.json", "onnx")
    )
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_verify(exported, vits16):
    folder, _ = exported
    done = call(ZOO, "verify", NAME, "--weights", vits16.path, cwd=folder)
    assert "passed" in done.stdout
    done = call(ZOO, "verify", NAME, cwd=folder, code=2)
    assert vits16.path.name in done.stderr
    done = call(ZOO, "verify", NAME, "--weights", "random", cwd=folder, code=2)
    assert "other weights" in done.stderr


@pytest.mark.full
def test_verify_notices_a_changed_file(tmp_path):
    call(EXPORT, "dinov3_vits16", "--weights", "random", "--no-verify", cwd=tmp_path)
    assert "passed" in call(ZOO, "verify", NAME, cwd=tmp_path).stdout
    with (tmp_path / NAME).open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"\x01\x02\x03")
    assert "has another sha256" in call(ZOO, "verify", NAME, cwd=tmp_path, code=1).stdout


@pytest.mark.full
def test_two_processes_write_the_same_bytes(tmp_path):
    options = ("--weights", "random:5", "--no-verify", "--size", "64x96")
    for folder in ("a", "b"):
        call(EXPORT, "dinov3_vits16", *options, "--out", folder, cwd=tmp_path)
    for suffix in (".onnx", ".manifest.json"):
        one, other = ((tmp_path / f / NAME).with_suffix(suffix).read_bytes() for f in "ab")
        assert one == other


@pytest.mark.full
def test_two_exports_to_one_file(tmp_path):
    """The second waits, and then finds it there or replaces it."""
    command = [*EXPORT, "dinov3_vits16", "--weights", "random", "--no-verify", "--size", "32"]
    for options, codes in ((), [0, 2]), (("--force",), [0, 0]):
        both = [
            subprocess.Popen([*command, *options], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        told = "".join(process.communicate(timeout=300)[1] for process in both)
        assert sorted(process.returncode for process in both) == codes, told
        assert "waiting for another process that writes dinov3_vits16" in told
        assert ("exists already" in told) == (2 in codes)
        assert {path.name for path in tmp_path.iterdir()} == {NAME, MANIFEST}


def test_other_json_files_are_left_alone(tmp_path):
    """Somebody may call a model as a file is called that other programs need."""
    (tmp_path / "package.json").write_text("precious")
    command = ["vit_digits", "--no-verify", "--out", "package.onnx", "--force"]
    call(EXPORT, *command, cwd=tmp_path)
    assert (tmp_path / "package.json").read_text() == "precious"
    assert (tmp_path / "package.manifest.json").exists()


def test_a_full_disk_leaves_nothing(tmp_path):
    small_files_only = (
        "import resource, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)); "
        "runpy.run_module('zoo.export', run_name='__main__', alter_sys=True)"
    )
    done = call(
        [sys.executable, "-c", small_files_only],
        *("dinov3_vits16", "--weights", "random", "--no-verify"),
        cwd=tmp_path,
        code=2,
    )
    assert "cannot write" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_killed_export_leaves_nothing(number, tmp_path):
    command = [*EXPORT, "dinov3_vits16", "--weights", "random"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(number)
    assert process.returncode == {signal.SIGTERM: 143, signal.SIGINT: 130}[number]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_one_file_for_every_size(tmp_path):
    """Open sizes, hidden states as maps; the file checks itself once more with `verify`."""
    options = ("--size", "dynamic", "--layers", "6,12", "--reshape", "--json")
    done = call(EXPORT, "dinov3_vits16", "--weights", "random", *options, cwd=tmp_path)
    record = json.loads(done.stdout)[0]
    variant = record["variants"]["fused"]
    assert (record["size"], record["layers"], record["reshape"]) == (None, [6, 12], True)
    assert variant["inputs"][0]["shape"] == ["batch_size", 3, "height", "width"]
    assert [output["name"] for output in variant["outputs"]][2:] == [
        "hidden_state_6",
        "hidden_state_12",
    ]
    assert variant["outputs"][2]["shape"] == ["batch_size", 384, "grid_height", "grid_width"]
    assert "multiples of 16" in record["sizes"]
    tried = {(item["height"], item["width"]) for item in variant["verification"]["comparisons"]}
    assert len(tried) == 5
    assert min(tried) < (224, 224) < max(tried)
    assert any(height != width for height, width in tried)
    assert "passed" in call(ZOO, "verify", NAME, cwd=tmp_path).stdout
