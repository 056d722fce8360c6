"""Folders that `zoo build` makes: what is in them and beside networks, resumed, side by side.

Those that are killed are in tests/test_killed.py.
"""

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import onnx
import pytest
import yaml
from safetensors.numpy import load_file
from transformers import AutoConfig

from tests import folders
from tests.folders import listed
from tests.zoo.architectures.test_digits import accuracy
from weights import bind, random_weights
from weights.progress import Quiet
from zoo import info, list_models
from zoo.architectures.builder import abstract
from zoo.artifacts.read import parse_manifest, to_text
from zoo.checkpoints.load import model_shapes
from zoo.checkpoints.settings.library_configs import portable_config
from zoo.common.errors import BadOutput
from zoo.export.assemble import schedule
from zoo.export.assemble.extras import (
    choose_golden_sample,
    make_golden,
    render_card,
    transformers_js_settings,
)
from zoo.export.assemble.ledger import Ledger, read_earlier_manifest
from zoo.export.assemble.plan import plan_folder
from zoo.export.describe import describe_shared
from zoo.export.make import Production
from zoo.export.request import Options, Signature
from zoo.export.subject import Subject
from zoo.export.verify import make_samples
from zoo.images.photograph import photograph
from zoo.images.pixel_values import pixel_values

MODEL = "vit_digits"
BUILD = ("build", MODEL, "--out", "out")
FILES = {
    "fp32": ("onnx/model.onnx", 18, "fp32"),
    "fused": ("onnx/model_fused.onnx", 23, "fp32"),
    "fp16": ("onnx/model_fp16.onnx", 18, "fp16"),
    "bf16": ("onnx/model_bf16.onnx", 23, "bf16"),
    "int8": ("onnx/model_quantized.onnx", 23, "int8"),
}


@pytest.fixture
def copied(built, zoo):
    """A folder to change, in `out` of the working folder."""
    return shutil.copytree(built[0], zoo.here / "out" / MODEL)


def manifest(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())


def test_what_is_in_it(built):
    folder, record = built
    assert set(record["built"]) == set(FILES) and record["error"] is None
    content = manifest(folder)
    assert content == record["manifest"] and content["complete"]
    assert {item["name"] for item in content["files"]} | {"manifest.json"} == listed(folder)
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
    speeds = content["speeds"]["variants"]
    assert [*speeds] == ["fp32", "fused", "fp16", "int8"] and speeds["fp32"]["ratio"] == 1
    assert all(each["p50_ms"] > 0 for each in speeds.values())
    # What the files give for the photograph is compared by `zoo verify`.
    fed, how = load_file(folder / "golden.safetensors")["pixel_values"], info(MODEL).preprocessing
    assert np.array_equal(fed, pixel_values([photograph()], how, how.size))


@pytest.mark.full
def test_outputs_that_were_asked_for(zoo):
    """They alone are in all files, the card, the golden numbers and what is compared."""
    names = ["pooler_output", "attentions", "class_attention"]
    options = ("--variant", "fp32", "--output", "class_attention,pooler_output")
    (record,) = zoo.json(*BUILD, *options, "--output", "attentions")
    folder = zoo.here / "out" / MODEL
    assert record["manifest"]["outputs"] == names
    variant = record["manifest"]["variants"]["fp32"]
    assert [each["name"] for each in variant["outputs"]] == names
    assert {each["output"] for each in variant["verification"]["comparisons"]} == {*names}
    golden_numbers = load_file(folder / "golden.safetensors")
    assert {*golden_numbers} == {"pixel_values", *names}
    text = (folder / "README.md").read_text()
    assert "- `class_attention`" in text and "- `last_hidden_state`" not in text
    assert "FAILED" not in zoo("verify", folder).out
    files = (folder / "golden.safetensors", "--onnx", folder / "onnx/model.onnx")
    zoo("verify", *files, "--weights", "auto")
    assert "other outputs" in zoo(*BUILD, code=2).out


OURS = "facebook/dinov2-small"
WHOSE = (
    ({"kind": "random", "seed": 0}, None),
    ({"kind": "meta", "name": "dinov2_vits14_pretrain.pth"}, OURS),
    ({"kind": "equimo", "repository": "poiretclement/equimo"}, OURS),
    ({"kind": "huggingface", "repository": "somebody/dinov2-of-cats"}, "somebody/dinov2-of-cats"),
    ({"kind": "meta", "name": "trained.pth", "is_published_file": False}, None),
)


def test_a_card_names_the_base_model_where_it_is_known():
    """As hubs read it. A mirror's weights are the authors'; nobody's, and one's own, have none."""
    speeds = {"runtime": "", "machine": "", "input": [1], "rounds": 1, "variants": {}}
    for weights, wanted in WHOSE:
        more = {"model": "dinov2_vits14", "weights": weights, "speeds": speeds}
        more["tools"] = {"jax-onnx-zoo": "0"}
        record = folders.manifest(folders.contents(), **more)
        text = render_card(parse_manifest(json.dumps(record).encode(), "the manifest"))
        settings = yaml.safe_load(text.split("---")[1])
        assert settings.get("base_model") == wanted, weights
        assert "<https://arxiv.org/abs/2304.07193>" in text


def test_every_variant_still_reads_digits(built):
    """Within 0.3 points of float32 in JAX, which gets 98.61 % right."""
    folder, _ = built
    wanted = accuracy(folder / "onnx/model.onnx")
    assert wanted >= 0.97
    for file, _, precision in FILES.values():
        # ONNX Runtime computes no bfloat16 on this machine's processor.
        assert precision == "bf16" or abs(accuracy(folder / file) - wanted) <= 0.003, file


def times(folder):
    """When files were changed."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.full
def test_a_build_is_resumed(copied, zoo):
    every, before = ("--variant", ",".join(FILES)), times(copied)
    (record,) = zoo.json(*BUILD, *every)
    assert record["already_there"] == list(FILES) and not record["built"]
    assert times(copied) == before
    # What is gone, damaged or left over is made again, or removed; the rest stays.
    (copied / "onnx/model_quantized.onnx").unlink()
    damaged = bytearray((copied / "onnx/model_fused.onnx").read_bytes())
    damaged[-100] ^= 1
    (copied / "onnx/model_fused.onnx").write_bytes(damaged)
    (copied / "onnx/model_q4.onnx").write_bytes(b"left over")
    (record,) = zoo.json(*BUILD, *every)
    assert record["built"] == ["int8", "fused"]
    assert record["already_there"] == ["fp32", "fp16", "bf16"]
    after = times(copied)
    assert set(after) == set(before)
    assert after[copied / "onnx/model.onnx"] == before[copied / "onnx/model.onnx"]
    zoo("verify", copied)


@pytest.mark.full
def test_other_weights_are_not_mixed(copied, zoo):
    content = (copied / "manifest.json").read_bytes()
    other = (*BUILD, "--weights", "random:3", "--variant", "fp32")
    assert "other weights: replace it with --force" in zoo(*other, code=2).out
    assert (copied / "manifest.json").read_bytes() == content
    zoo(*other, "--force")
    assert list(manifest(copied)["variants"]) == ["fp32"]
    assert {name for name in listed(copied) if name.startswith("onnx/")} == {"onnx/model.onnx"}


def test_a_manifest_that_makes_no_sense(built, tmp_path):
    """It is neither believed nor overwritten."""
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(manifest(built[0]) | {"complete": "yes"}))
    before = path.read_bytes()
    with pytest.raises(BadOutput, match="is no manifest of a build"):
        read_earlier_manifest(tmp_path)
    assert path.read_bytes() == before
    # That of a build that was stopped at once has no variant yet: the next one goes on from there.
    change = {"variants": {}, "files": [], "complete": False}
    path.write_text(json.dumps(manifest(built[0]) | change))
    assert read_earlier_manifest(tmp_path).variants == {}


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
    earlier = read_earlier_manifest(built[0])
    header = earlier.with_changes(files=(), variants={}, complete=False)
    older = earlier.with_changes(tools={**earlier.tools, "onnxruntime": "1.0.0"})
    (tmp_path / "manifest.json").write_text(to_text(older))
    told = r"fp16 and bf16 and int8 of a build with onnxruntime 1\.0\.0"
    with pytest.raises(BadOutput, match=told):
        Ledger(tmp_path, header, ("fp32", "fused"), force=False)
    assert Ledger(tmp_path, header, tuple(FILES), force=False).manifest.variants == {}
    assert Ledger(tmp_path, header, ("fp32",), force=True).manifest.variants == {}


@pytest.mark.parametrize(("budget", "most"), [(2.8e9, 2), (1e6, 1), (1e12, 4)])
def test_builds_stay_within_the_memory(budget, most, monkeypatch):
    """Small networks of 1.3 GB each: as many as fit, and one alone whatever the budget."""
    names = ("dinov2_vits14", "dinov2_vits14_reg", "dinov3_vits16", "tips_vits14_hr")
    options = Options(size="dynamic")
    plans = [plan_folder(info(name), "auto", options, ("fp32",), Path(name)) for name in names]
    assert all(1e9 < schedule.estimate_build_memory(each) < 1.35e9 for each in plans)
    running, seen = set(), []

    def start(each, told, options):
        running.add(each.model.name)
        seen.append(len(running))
        time.sleep(0.2)
        running.discard(each.model.name)
        return schedule.Outcome(each.model.name)

    monkeypatch.setattr(schedule, "build_in_worker", start)
    pool = schedule.Pool(lambda: ThreadPoolExecutor(4), print, worker_errors=())
    outcomes = schedule.run_builds(plans, pool, budget, lambda *finished: None)
    assert tuple(outcome.model for outcome in outcomes) == names
    assert max(seen) == most


@pytest.mark.full
def test_images_as_input(zoo):
    """With preprocessing inside, every variant reads the photograph itself."""
    zoo(*BUILD, "--input", "uint8")
    folder = zoo.here / "out" / MODEL
    golden = load_file(folder / "golden.safetensors")
    assert golden["image"].shape == (1, 224, 336, 3) and golden["image"].dtype == np.uint8
    zoo("verify", folder)
    assert "any height and width" in (folder / "README.md").read_text()


@pytest.mark.full
@pytest.mark.parametrize("size", [None, (336, 448)])
def test_golden_numbers_are_those_of_the_published_settings(size):
    """Also of DINOv2, which is verified at 518 x 518 pixels but used at 224 x 224."""
    entry = info("dinov2_vits14_reg")
    entry = entry.with_config(replace(entry.config, dim=32, depth=1, heads=2, hidden=64))
    model, weights = abstract(entry.config), random_weights(model_shapes(entry.config))
    signature = Signature(size, 1)
    samples = make_samples(entry, model, weights.arrays, signature)
    subject = Subject(entry, model, weights, is_network=True)
    staged = (None, Quiet())
    production = Production(Options(), None, subject, signature, lambda: samples, *staged)
    how = describe_shared(entry, signature, weights.provenance).preprocessing.settings
    assert how.size == (size or (224, 224))
    got = make_golden(subject, choose_golden_sample(production, how))
    np.testing.assert_array_equal(
        got.feeds["pixel_values"], pixel_values([photograph()], how, how.size)
    )
    run = jax.vmap(bind(model, weights.arrays))(got.feeds["pixel_values"])
    assert set(got.outputs) == {"last_hidden_state", "pooler_output"}
    for name, value in got.outputs.items():
        np.testing.assert_allclose(value, getattr(run, name), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("variants", "outside", "told"),
    [
        (("fp32", "int8"), (), {}),
        (("fp32", "fused"), (), {"device_config": {"wasm": {"dtype": "fp32"}}}),
        (("fused", "q4f16", "bf16"), (), {"device_config": {"wasm": {"dtype": "q4f16"}}}),
        (("fused",), (), {}),
        (("int8",), ("int8",), {"use_external_data_format": {"model_quantized.onnx": 1}}),
    ],
)
def test_what_transformers_js_is_told(variants, outside, told):
    assert transformers_js_settings(variants, outside) == told


def test_every_network_has_settings():
    """Of its class in transformers, of that for the features below, or at least with its words."""
    told = {name: portable_config(info(name).config, (), "own") for name in list_models()}
    depths = told["depth_anything_v2_vits"], told["depth_digits"]
    assert [each["model_type"] for each in depths] == ["depth_anything", "dinov3_vit"]
    assert all(
        len(each.get("id2label", ())) == info(name).config.classes for name, each in told.items()
    )
