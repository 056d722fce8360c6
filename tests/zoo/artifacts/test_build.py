"""Folders that `zoo build` makes: what is in them, resumed, damaged, side by side.

Those that are killed are in tests/test_killed.py.
"""

import hashlib
import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file
from transformers import AutoConfig

import converter
from tests.command import PROGRAM, Command
from tests.zoo.models.test_digits import accuracy
from zoo import info
from zoo.artifacts.build import schedule
from zoo.artifacts.build.ledger import Ledger, read_ledger
from zoo.artifacts.build.plan import FolderPlan
from zoo.errors import BadOutput
from zoo.export.request import Signature
from zoo.images.photograph import photograph
from zoo.images.pixel_values import pixel_values
from zoo.manifest.read import to_text

MODEL = "vit_digits"
BUILD = ("build", MODEL, "--out", "out")
FILES = {
    "fp32": ("onnx/model.onnx", 18, "fp32"),
    "fused": ("onnx/model_fused.onnx", 23, "fp32"),
    "fp16": ("onnx/model_fp16.onnx", 18, "fp16"),
    "bf16": ("onnx/model_bf16.onnx", 23, "bf16"),
    "int8": ("onnx/model_quantized.onnx", 23, "int8"),
}
RUN = {name: found for name, found in FILES.items() if name != "bf16"}
"""What ONNX Runtime computes on this machine's processor."""

COSINE = {"fp32": 1 - 1e-6, "fp16": 0.9999, "int8": 0.99}


@pytest.fixture
def copied(built, zoo):
    """A folder to change, in `out` of the working folder."""
    return shutil.copytree(built[0], zoo.here / "out" / MODEL)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def manifest(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())


def listed(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_what_is_in_it(built):
    folder, record = built
    assert set(record["built"]) == set(FILES) and record["error"] is None
    content = manifest(folder)
    assert content == record["manifest"] and content["complete"]
    assert {item["name"] for item in content["files"]} | {"manifest.json"} == listed(folder)
    for item in content["files"]:
        path = folder / item["name"]
        assert (item["bytes"], item["sha256"]) == (path.stat().st_size, digest(path))
    assert list(content["variants"]) == list(FILES)
    for name, expected in FILES.items():
        variant = content["variants"][name]
        (file,) = variant["files"]
        assert (file, variant["opset"], variant["precision"]) == expected
        assert variant["verification"]["passed"]
        onnx.checker.check_model(folder / file, full_check=True)
        shape = ["batch_size", 3, "height", "width"]
        assert variant["inputs"] == [{"name": "pixel_values", "dtype": "float32", "shape": shape}]
    assert "Apache License" in (folder / "LICENSE").read_text()
    assert content["weights"]["is_embedded_file"]
    config = AutoConfig.from_pretrained(folder)
    assert (config.model_type, config.hidden_size, config.patch_size) == ("dinov3_vit", 64, 2)


def test_golden_numbers(built):
    """The golden file is the preprocessed photograph and what the files give for it."""
    folder, _ = built
    golden = load_file(folder / "golden.safetensors")
    how = info(MODEL).preprocessing
    assert np.array_equal(golden["pixel_values"], pixel_values([photograph()], how, how.size))
    for file, _, precision in RUN.values():
        got = converter.run(folder / file, [golden["pixel_values"]])
        assert set(got) == set(golden) - {"pixel_values"}
        for name, value in got.items():
            assert converter.compare(value, golden[name]).cosine >= COSINE[precision]


def test_every_variant_still_reads_digits(built):
    """Within 0.3 points of float32 in JAX, which gets 98.61 % right."""
    folder, _ = built
    wanted = accuracy(folder / "onnx/model.onnx")
    assert wanted >= 0.97
    for file, *_ in RUN.values():
        assert abs(accuracy(folder / file) - wanted) <= 0.003, file


@pytest.mark.full
def test_a_build_is_resumed(copied, zoo):
    every = ("--variant", ",".join(FILES))
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*") if path.is_file()}
    (record,) = zoo.json(*BUILD, *every)
    assert record["already_there"] == list(FILES) and not record["built"]
    assert before == {path: path.stat().st_mtime_ns for path in copied.rglob("*") if path.is_file()}
    # What is gone, damaged or left over is made again, or removed; the rest stays.
    (copied / "onnx/model_quantized.onnx").unlink()
    damaged = bytearray((copied / "onnx/model_fused.onnx").read_bytes())
    damaged[-100] ^= 1
    (copied / "onnx/model_fused.onnx").write_bytes(damaged)
    (copied / "onnx/model_q4.onnx").write_bytes(b"left over")
    (copied / "onnx/.zoo-build-0123456789abcdef").mkdir()
    # What another command is at is not swept.
    others = [copied / name for name in (".zoo-pull", ".zoo-part-0123456789abcdef")]
    for other in others:
        other.mkdir()
    (record,) = zoo.json(*BUILD, *every)
    assert (record["built"], record["already_there"]) == (
        ["int8", "fused"],
        [*FILES][:1] + [*FILES][2:4],
    )
    for other in others:
        other.rmdir()
    assert listed(copied) == {path.relative_to(copied).as_posix() for path in before}
    unchanged = copied / "onnx/model.onnx"
    assert unchanged.stat().st_mtime_ns == before[unchanged]
    check_manifest(copied)


@pytest.mark.full
def test_other_weights_are_not_mixed(copied, zoo):
    content = digest(copied / "manifest.json")
    other = (*BUILD, "--weights", "random:3", "--variant", "fp32")
    assert "other weights: replace it with --force" in zoo(*other, code=2).out
    assert digest(copied / "manifest.json") == content
    zoo(*other, "--force")
    assert list(manifest(copied)["variants"]) == ["fp32"]
    assert {name for name in listed(copied) if name.startswith("onnx/")} == {"onnx/model.onnx"}


def test_a_manifest_that_makes_no_sense(built, tmp_path):
    """It is neither believed nor overwritten."""
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(manifest(built[0]) | {"complete": "yes"}))
    before = path.read_bytes()
    with pytest.raises(BadOutput, match="is no manifest of a build"):
        read_ledger(tmp_path)
    assert path.read_bytes() == before
    # That of a build that was stopped at once has no variant yet: the next one goes on from there.
    change = {"variants": {}, "files": [], "complete": False}
    path.write_text(json.dumps(manifest(built[0]) | change))
    assert read_ledger(tmp_path).variants == {}


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "config.json", "onnx/notes.txt"])
def test_files_of_no_build_are_the_user_s(name, zoo):
    path = zoo.here / "out" / MODEL / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    told = zoo(*BUILD, code=2)
    assert f"{Path(name).parts[0]} is of no build: move it away" in told.out
    assert listed(zoo.here / "out" / MODEL) == {name} and path.read_text() == "mine"


def test_files_of_other_versions_are_not_dropped_without_a_word(built, tmp_path):
    """All of them are made again, or the folder is left as it is."""
    earlier = read_ledger(built[0])
    header = earlier.changed(files=(), variants={}, complete=False)
    older = earlier.changed(tools={**earlier.tools, "onnxruntime": "1.0.0"})
    (tmp_path / "manifest.json").write_text(to_text(older))
    with pytest.raises(
        BadOutput, match=r"fp16 and bf16 and int8 of a build with onnxruntime 1\.0\.0"
    ):
        Ledger(tmp_path, header, ("fp32", "fused"), force=False)
    assert Ledger(tmp_path, header, tuple(FILES), force=False).content.variants == {}
    assert Ledger(tmp_path, header, ("fp32",), force=True).content.variants == {}


def plan(model):
    return FolderPlan(model, Path(model), "auto", Signature(None, None), ("fp32",))


@pytest.mark.parametrize(("budget", "most"), [(2.8e9, 2), (1e6, 1), (1e12, 4)])
def test_builds_stay_within_the_memory(budget, most, monkeypatch):
    """Small networks of 1.3 GB each: as many as fit, and one alone whatever the budget."""
    names = ("dinov2_vits14", "dinov2_vits14_reg", "dinov3_vits16", "tips_vits14_hr")
    plans = [plan(name) for name in names]
    assert all(1e9 < schedule.memory_needed(each) < 1.35e9 for each in plans)
    running, seen = set(), []

    def start(each, told):
        running.add(each)
        seen.append(len(running))
        time.sleep(0.2)
        running.discard(each)
        return schedule.Outcome(each.model)

    monkeypatch.setattr(schedule, "start", start)
    pool = schedule.Pool(lambda: ThreadPoolExecutor(4), print, lost=())
    outcomes = schedule.run_builds(plans, pool, budget, lambda plan, outcome: None)
    assert [outcome.model for outcome in outcomes] == [each.model for each in plans]
    assert max(seen) == most


@pytest.mark.full
def test_images_as_input(zoo):
    """With preprocessing inside, every variant reads the photograph itself."""
    zoo(*BUILD, "--input", "uint8")
    folder = zoo.here / "out" / MODEL
    golden = load_file(folder / "golden.safetensors")
    assert golden["image"].shape == (1, 224, 336, 3) and golden["image"].dtype == np.uint8
    for variant in manifest(folder)["variants"].values():
        got = converter.run(folder / variant["files"][0], [golden["image"]])
        for name, value in got.items():
            assert converter.compare(value, golden[name]).cosine >= 0.99
    assert "any height and width" in (folder / "README.md").read_text()


@pytest.mark.full
def test_two_builds_of_one_folder(tmp_path):
    """The second one waits and then finds everything there."""
    zoo = Command(tmp_path)
    both = [zoo.start(*BUILD, "--variant", "fp32", "--json") for _ in range(2)]
    records = [json.loads(process.communicate(timeout=300)[0])[0] for process in both]
    assert sorted(record["built"] for record in records) == [[], ["fp32"]]
    assert all(record["manifest"]["complete"] for record in records)


def check_manifest(folder):
    """It tells the truth, if there is one."""
    if (folder / "manifest.json").exists():
        for item in manifest(folder)["files"]:
            assert digest(folder / item["name"]) == item["sha256"], item["name"]


@pytest.mark.full
def test_no_room(tmp_path):
    """One sentence, and nothing but whole files that were finished before."""
    # A limit on the size of files gives the same kind of error as a full disk.
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)); "
    program = [*PROGRAM[:2], code + PROGRAM[2]]
    process = Command(tmp_path).start(*BUILD, program=program)
    said = "".join(process.communicate(timeout=300))
    assert process.returncode == 2 and "make room there" in said and "Traceback" not in said
    check_manifest(tmp_path / "out" / MODEL)
    assert not list((tmp_path / "out" / MODEL / "onnx").glob("*"))
