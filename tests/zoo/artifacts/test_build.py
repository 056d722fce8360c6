"""Folders that `zoo build` makes: what is in them, resumed, damaged, killed, side by side."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file
from transformers import AutoConfig

import converter
import zoo
from tests.zoo.export.test_export import ZOO, call, no_weights_around  # noqa: F401
from tests.zoo.models.test_digits import accuracy
from zoo.artifacts.build import schedule
from zoo.artifacts.build.ledger import Ledger, read
from zoo.artifacts.build.plan import Plan
from zoo.errors import BadOutput
from zoo.export.request import Signature
from zoo.images.photograph import photograph
from zoo.images.pixel_values import pixel_values
from zoo.manifest.read import to_text

MODEL = "vit_digits"
FILES = {
    "fp32": ("onnx/model.onnx", 18, "fp32"),
    "fused": ("onnx/model_fused.onnx", 23, "fp32"),
    "fp16": ("onnx/model_fp16.onnx", 18, "fp16"),
    "int8": ("onnx/model_quantized.onnx", 23, "int8"),
}


def build(*arguments, cwd, **options):
    return call([*ZOO, "build"], *arguments, cwd=cwd, **options)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder that is not to be changed, and what the command printed."""
    folder = tmp_path_factory.mktemp("built")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = build(MODEL, "--out", "out", "--json", cwd=folder, env=environment)
    return folder / "out" / MODEL, json.loads(done.stdout)[0]


@pytest.fixture
def copied(built, tmp_path):
    """A folder to change, in `out` of the working folder."""
    target = tmp_path / "out" / MODEL
    shutil.copytree(built[0], target)
    return target


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def manifest(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())


def listed(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_what_is_in_it(built):
    folder, record = built
    assert record["built"] == ["fp16", "fp32", "int8", "fused"] and record["error"] is None
    content = manifest(folder)
    assert content == record["manifest"] and content["complete"]
    assert {item["name"] for item in content["files"]} | {"manifest.json"} == listed(folder)
    for item in content["files"]:
        path = folder / item["name"]
        assert (item["bytes"], item["sha256"]) == (path.stat().st_size, digest(path))
    assert list(content["variants"]) == list(FILES)
    for name, (file, opset, precision) in FILES.items():
        variant = content["variants"][name]
        assert (variant["files"], variant["opset"], variant["precision"]) == (
            [file],
            opset,
            precision,
        )
        assert variant["verification"]["passed"]
        onnx.checker.check_model(folder / file, full_check=True)
        shape = ["batch_size", 3, "height", "width"]
        assert variant["inputs"] == [{"name": "pixel_values", "dtype": "float32", "shape": shape}]
    assert "Apache License" in (folder / "LICENSE").read_text()
    assert content["weights"]["is_embedded_file"]


def test_golden_numbers(built):
    """The golden file is the preprocessed photograph and what the files give for it."""
    folder, _ = built
    golden = load_file(folder / "golden.safetensors")
    how = zoo.info(MODEL).preprocessing
    assert np.array_equal(golden["pixel_values"], pixel_values([photograph()], how, how.size))
    for file, _, precision in FILES.values():
        got = converter.run(folder / file, [golden["pixel_values"]])
        assert set(got) == set(golden) - {"pixel_values"}
        for name, value in got.items():
            cosine = converter.compare(value, golden[name]).cosine
            assert cosine >= {"fp32": 1 - 1e-6, "fp16": 0.9999, "int8": 0.99}[precision]


def test_settings(built):
    folder, _ = built
    config = AutoConfig.from_pretrained(folder)
    assert (config.model_type, config.hidden_size, config.patch_size) == ("dinov3_vit", 64, 2)


def test_every_variant_still_reads_digits(built):
    """Within 0.3 points of float32 in JAX, which gets 98.61 % right."""
    folder, _ = built
    wanted = accuracy(folder / "onnx/model.onnx")
    assert wanted >= 0.97
    for file, *_ in FILES.values():
        assert abs(accuracy(folder / file) - wanted) <= 0.003, file


@pytest.mark.full
def test_a_build_is_resumed(copied, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*") if path.is_file()}
    done = build(MODEL, "--out", "out", "--json", cwd=tmp_path)
    (record,) = json.loads(done.stdout)
    assert record["already_there"] == list(FILES) and not record["built"]
    assert before == {path: path.stat().st_mtime_ns for path in copied.rglob("*") if path.is_file()}
    # What is gone, damaged or left over is made again, or removed; the rest stays.
    (copied / "onnx/model_quantized.onnx").unlink()
    damaged = bytearray((copied / "onnx/model_fused.onnx").read_bytes())
    damaged[-100] ^= 1
    (copied / "onnx/model_fused.onnx").write_bytes(damaged)
    (copied / "onnx/model_bf16.onnx").write_bytes(b"left over")
    (copied / "onnx/.zoo-build-0123456789abcdef").mkdir()
    # What another command is at is not swept.
    others = [copied / name for name in (".zoo-pull", ".zoo-part-0123456789abcdef")]
    for other in others:
        other.mkdir()
    done = build(MODEL, "--out", "out", "--json", cwd=tmp_path)
    (record,) = json.loads(done.stdout)
    assert (record["built"], record["already_there"]) == (["int8", "fused"], ["fp32", "fp16"])
    for other in others:
        other.rmdir()
    assert listed(copied) == {path.relative_to(copied).as_posix() for path in before}
    unchanged = copied / "onnx/model.onnx"
    assert unchanged.stat().st_mtime_ns == before[unchanged]
    assert all(
        digest(copied / item["name"]) == item["sha256"] for item in manifest(copied)["files"]
    )


@pytest.mark.full
def test_other_weights_are_not_mixed(copied, tmp_path):
    content = digest(copied / "manifest.json")
    done = build(MODEL, "--out", "out", "--weights", "random:3", cwd=tmp_path, code=2)
    assert "other weights: replace it with --force" in done.stderr
    assert digest(copied / "manifest.json") == content
    build(
        MODEL, "--out", "out", "--weights", "random:3", "--force", "--variant", "fp32", cwd=tmp_path
    )
    assert list(manifest(copied)["variants"]) == ["fp32"]
    assert {name for name in listed(copied) if name.startswith("onnx/")} == {"onnx/model.onnx"}


@pytest.mark.parametrize(
    "change",
    [
        {"variants": None},
        {"files": [{"name": "../x", "bytes": 1, "sha256": "0" * 64}]},
        {"complete": "yes"},
        {"model": 3},
        {"format": "another"},
    ],
)
def test_a_manifest_that_makes_no_sense(built, tmp_path, change):
    """It is neither believed nor overwritten."""
    text = json.dumps(manifest(built[0]) | change)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(BadOutput, match="is no manifest of a build"):
        read(tmp_path)
    assert (tmp_path / "manifest.json").read_text() == text


def test_a_build_that_was_stopped_at_once(built, tmp_path):
    """Its manifest has no variant yet, and the next build goes on from there."""
    change = {"variants": {}, "files": [], "complete": False}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest(built[0]) | change))
    assert read(tmp_path).variants == {}


def test_files_of_other_versions_are_not_dropped_without_a_word(built, tmp_path):
    """All of them are made again, or the folder is left as it is."""
    earlier = read(built[0])
    header = earlier.changed(files=(), variants={}, complete=False)
    older = earlier.changed(tools={**earlier.tools, "onnxruntime": "1.0.0"})
    (tmp_path / "manifest.json").write_text(to_text(older))
    with pytest.raises(BadOutput, match=r"fp16 and int8 of a build with onnxruntime 1\.0\.0"):
        Ledger(tmp_path, header, ("fp32", "fused"), force=False)
    assert Ledger(tmp_path, header, tuple(FILES), force=False).content.variants == {}
    assert Ledger(tmp_path, header, ("fp32",), force=True).content.variants == {}


def plan(model):
    return Plan(model, Path(model), "auto", Signature(None, None), ("fp32",))


@pytest.mark.parametrize(("budget", "most"), [(2.5e9, 2), (1.3e9, 1), (1e6, 1), (1e12, 4)])
def test_builds_stay_within_the_memory(budget, most, monkeypatch):
    """Small networks of 1.1 GB each: as many as fit, and one alone whatever the budget."""
    plans = [plan(f"dinov2_vits14{end}") for end in ("", "_reg")]
    plans += [plan("dinov3_vits16"), plan("tips_vits14_hr")]
    assert all(1e9 < schedule.footprint(each) < 1.25e9 for each in plans)
    running, seen = set(), []

    def start(each, told):
        running.add(each)
        seen.append(len(running))
        time.sleep(0.2)
        running.discard(each)
        return schedule.Outcome(each.model)

    monkeypatch.setattr(schedule, "start", start)
    pool = schedule.Pool(lambda: ThreadPoolExecutor(4), print, lost=())
    outcomes = schedule.run(plans, pool, budget, lambda plan, outcome: None)
    assert [outcome.model for outcome in outcomes] == [each.model for each in plans]
    assert max(seen) == most


@pytest.mark.full
def test_images_as_input(tmp_path):
    """With preprocessing inside, every variant reads the photograph itself."""
    build(MODEL, "--input", "uint8", "--out", "out", cwd=tmp_path)
    folder = tmp_path / "out" / MODEL
    golden = load_file(folder / "golden.safetensors")
    assert golden["image"].shape == (1, 224, 336, 3) and golden["image"].dtype == np.uint8
    for file, *_ in FILES.values():
        got = converter.run(folder / file, [golden["image"]])
        for name, value in got.items():
            assert converter.compare(value, golden[name]).cosine >= 0.99
    assert "any height and width" in (folder / "README.md").read_text()


@pytest.mark.full
def test_two_builds_of_one_folder(tmp_path):
    """The second one waits and then finds everything there."""
    command = [*ZOO, "build", MODEL, "--out", "out", "--variant", "fp32", "--json"]
    both = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    records = [json.loads(process.communicate(timeout=300)[0])[0] for process in both]
    assert sorted(record["built"] for record in records) == [[], ["fp32"]]
    assert all(record["manifest"]["complete"] for record in records)


KILLS = int(os.environ.get("ZOO_TEST_KILLS", "6"))
"""How often a build is killed; more take longer and find more."""


@pytest.mark.full
def test_killed_at_any_moment(built, tmp_path):
    """Under final names there is never anything but what a whole build gives."""
    right = {file: digest(built[0] / file) for file, *_ in FILES.values()}
    command = [*ZOO, "build", MODEL, "--out", "out"]
    folder = tmp_path / "out" / MODEL
    moments = random.Random(0)
    began = time.monotonic()
    call(command, cwd=tmp_path)
    whole = time.monotonic() - began
    kills = 0
    while kills < KILLS:
        if folder.exists() and (manifest(folder)["complete"] if listed(folder) else False):
            shutil.rmtree(tmp_path / "out")
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.1, 1) * whole)
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        check_nothing_wrong(folder, right)
    call(command, cwd=tmp_path)
    assert manifest(folder)["complete"]
    assert {file: digest(folder / file) for file in right} == right
    assert not [path for path in folder.rglob(".zoo-*")]


def check_nothing_wrong(folder, right):
    """Whole files of this build, a manifest that tells the truth, and hidden folders."""
    if not folder.exists():
        return
    for name in listed(folder):
        if not any(part.startswith(".") for part in name.split("/")):
            assert right.get(name, digest(folder / name)) == digest(folder / name), name
    if (folder / "manifest.json").exists():
        for item in manifest(folder)["files"]:
            assert digest(folder / item["name"]) == item["sha256"], item["name"]


@pytest.mark.full
@pytest.mark.parametrize("limit", [20_000, 300_000, 600_000])
def test_no_room(tmp_path, limit):
    """One sentence, and nothing but whole files that were finished before."""
    # A limit on the size of files gives the same kind of error as a full disk.
    code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); "
    command = [sys.executable, "-c", f"{code}{ZOO[2]}", "build", MODEL, "--out", "out"]
    done = call(command, cwd=tmp_path, code=2)
    assert "make room there" in done.stderr
    check_nothing_wrong(tmp_path / "out" / MODEL, {})
    assert not list((tmp_path / "out" / MODEL / "onnx").glob("*"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("vit_digit",), "there is no model called 'vit_digit': did you mean vit_digits"),
        ((), "no model was named"),
        ((MODEL, "--variant", "fp8"), "--variant fp8 is not known: choose from fp32, fused"),
        ((MODEL, "--size", "9"), "size 9x9 does not fit vit_digits"),
        ((MODEL, "--size", "dynamic", "--input", "uint8"), "input uint8 resizes images"),
        ((MODEL, "--weights", "nothing.pth"), "nothing.pth does not exist"),
        ((MODEL, "dinov3_vits16", "--weights", "a.pth"), "a.pth is one checkpoint for 2 models"),
        pytest.param(
            (MODEL, "--scheduler", "tcp://127.0.0.1:1"), "does not answer", marks=pytest.mark.full
        ),
        ((MODEL, "--jobs", "0"), "Input should be greater than or equal to 1"),
        ((MODEL, "--out", "file/x"), "cannot write"),
    ],
)
def test_wrong_use(arguments, sentence, tmp_path):
    (tmp_path / "file").write_text("")
    done = build(*arguments, cwd=tmp_path, code=2)
    assert sentence in done.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"file", "artifacts"}
    assert not listed(tmp_path) - {"file"}
