"""Folders that `zoo build` writes: files, manifests, cards, resumed builds, parallel builds.

Builds that are killed are in tests/test_killed.py.
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
from zoo.export.describe import make_shared_manifest
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
"""The file, opset and precision of each variant."""


@pytest.fixture
def built_copy(built, zoo):
    """A copy of the built folder in `out`, which the test may change."""
    return shutil.copytree(built[0], zoo.here / "out" / MODEL)


def manifest(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())


def test_files_and_manifest_of_a_folder(built):
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
    assert all(speed["p50_ms"] > 0 for speed in speeds.values())
    # `zoo verify` compares the outputs for the photograph.
    pixels, preprocessing = (
        load_file(folder / "golden.safetensors")["pixel_values"],
        info(MODEL).preprocessing,
    )
    assert np.array_equal(pixels, pixel_values([photograph()], preprocessing, preprocessing.size))


@pytest.mark.full
def test_requested_outputs(zoo):
    """Files, card, golden numbers and comparisons have the requested outputs and no others."""
    names = ["pooler_output", "attentions", "class_attention"]
    options = ("--variant", "fp32", "--output", "class_attention,pooler_output")
    (record,) = zoo.json(*BUILD, *options, "--output", "attentions")
    folder = zoo.here / "out" / MODEL
    assert record["manifest"]["outputs"] == names
    variant = record["manifest"]["variants"]["fp32"]
    assert [output["name"] for output in variant["outputs"]] == names
    assert {row["output"] for row in variant["verification"]["comparisons"]} == {*names}
    golden_numbers = load_file(folder / "golden.safetensors")
    assert {*golden_numbers} == {"pixel_values", *names}
    text = (folder / "README.md").read_text()
    assert "- `class_attention`" in text and "- `last_hidden_state`" not in text
    assert "FAILED" not in zoo("verify", folder).out
    files = (folder / "golden.safetensors", "--onnx", folder / "onnx/model.onnx")
    zoo("verify", *files, "--weights", "auto")
    assert "other outputs" in zoo(*BUILD, code=2).out


DINOV2_SMALL = "facebook/dinov2-small"
BASE_MODELS = (
    ({"kind": "random", "seed": 0}, None),
    ({"kind": "meta", "name": "dinov2_vits14_pretrain.pth"}, DINOV2_SMALL),
    ({"kind": "equimo", "repository": "poiretclement/equimo"}, DINOV2_SMALL),
    ({"kind": "huggingface", "repository": "somebody/dinov2-of-cats"}, "somebody/dinov2-of-cats"),
    ({"kind": "meta", "name": "trained.pth", "is_published_file": False}, None),
)
"""Origins of weights, and the base model that a card names for them."""


def test_a_card_names_the_base_model_where_it_is_known():
    """Weights of a mirror name the authors' model. Random weights and a user's own name none."""
    speeds = {"runtime": "", "machine": "", "input": [1], "rounds": 1, "variants": {}}
    for weights, expected in BASE_MODELS:
        fields = {"model": "dinov2_vits14", "weights": weights, "speeds": speeds}
        fields["tools"] = {"jax-onnx-zoo": "0"}
        record = folders.manifest(folders.contents(), **fields)
        text = render_card(parse_manifest(json.dumps(record).encode(), "the manifest"))
        settings = yaml.safe_load(text.split("---")[1])
        assert settings.get("base_model") == expected, weights
        assert "<https://arxiv.org/abs/2304.07193>" in text


def test_every_variant_still_reads_digits(built):
    """The accuracy is within 0.3 points of the float32 file. JAX in float32 reads 98.61 %."""
    folder, _ = built
    float32_accuracy = accuracy(folder / "onnx/model.onnx")
    assert float32_accuracy >= 0.97
    for file, _, precision in FILES.values():
        # ONNX Runtime has no kernels for bfloat16 on the CPU.
        assert precision == "bf16" or abs(accuracy(folder / file) - float32_accuracy) <= 0.003, file


def modification_times(folder):
    """Return the modification time of every file below a folder."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.full
def test_a_build_is_resumed(built_copy, zoo):
    all_variants, before = ("--variant", ",".join(FILES)), modification_times(built_copy)
    (record,) = zoo.json(*BUILD, *all_variants)
    assert record["already_there"] == list(FILES) and not record["built"]
    assert modification_times(built_copy) == before
    # Missing and damaged files are written again, left-over files removed, others unchanged.
    (built_copy / "onnx/model_quantized.onnx").unlink()
    damaged = bytearray((built_copy / "onnx/model_fused.onnx").read_bytes())
    damaged[-100] ^= 1
    (built_copy / "onnx/model_fused.onnx").write_bytes(damaged)
    (built_copy / "onnx/model_q4.onnx").write_bytes(b"left over")
    (record,) = zoo.json(*BUILD, *all_variants)
    assert record["built"] == ["int8", "fused"]
    assert record["already_there"] == ["fp32", "fp16", "bf16"]
    after = modification_times(built_copy)
    assert set(after) == set(before)
    assert after[built_copy / "onnx/model.onnx"] == before[built_copy / "onnx/model.onnx"]
    zoo("verify", built_copy)


@pytest.mark.full
def test_other_weights_are_not_mixed(built_copy, zoo):
    content = (built_copy / "manifest.json").read_bytes()
    command = (*BUILD, "--weights", "random:3", "--variant", "fp32")
    assert "other weights: replace it with --force" in zoo(*command, code=2).out
    assert (built_copy / "manifest.json").read_bytes() == content
    zoo(*command, "--force")
    assert list(manifest(built_copy)["variants"]) == ["fp32"]
    assert {name for name in listed(built_copy) if name.startswith("onnx/")} == {"onnx/model.onnx"}


def test_wrong_manifests_are_refused_and_kept(built, tmp_path):
    """A manifest with a wrong value is not used, and not overwritten."""
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(manifest(built[0]) | {"complete": "yes"}))
    before = path.read_bytes()
    with pytest.raises(BadOutput, match="is no manifest of a build"):
        read_earlier_manifest(tmp_path)
    assert path.read_bytes() == before
    # A build that was stopped early left a manifest without variants, which can be resumed.
    change = {"variants": {}, "files": [], "complete": False}
    path.write_text(json.dumps(manifest(built[0]) | change))
    assert read_earlier_manifest(tmp_path).variants == {}


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "config.json", "onnx/notes.txt"])
def test_files_of_no_build_are_kept(name, zoo):
    path = zoo.here / "out" / MODEL / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    printed = zoo(*BUILD, code=2)
    assert f"{Path(name).parts[0]} is of no build: move it away" in printed.out
    assert listed(zoo.here / "out" / MODEL) == {name} and path.read_text() == "mine"


def test_files_of_other_versions_are_not_dropped_silently(built, tmp_path):
    """A build of all variants, or with `force`, drops them. Another build is refused."""
    earlier = read_earlier_manifest(built[0])
    header = earlier.with_changes(files=(), variants={}, complete=False)
    older = earlier.with_changes(tools={**earlier.tools, "onnxruntime": "1.0.0"})
    (tmp_path / "manifest.json").write_text(to_text(older))
    message = r"fp16 and bf16 and int8 of a build with onnxruntime 1\.0\.0"
    with pytest.raises(BadOutput, match=message):
        Ledger(tmp_path, header, ("fp32", "fused"), force=False)
    assert Ledger(tmp_path, header, tuple(FILES), force=False).manifest.variants == {}
    assert Ledger(tmp_path, header, ("fp32",), force=True).manifest.variants == {}


@pytest.mark.parametrize(("budget", "most"), [(2.8e9, 2), (1e6, 1), (1e12, 4)])
def test_builds_stay_within_the_memory(budget, most, monkeypatch):
    """As many builds of 1.3 GB run at once as fit in the budget, and at least one."""
    names = ("dinov2_vits14", "dinov2_vits14_reg", "dinov3_vits16", "tips_vits14_hr")
    options = Options(size="dynamic")
    plans = [plan_folder(info(name), "auto", options, ("fp32",), Path(name)) for name in names]
    assert all(1e9 < schedule.estimate_build_memory(plan) < 1.35e9 for plan in plans)
    running, counts = set(), []

    def start(plan, printed, options):
        running.add(plan.model.name)
        counts.append(len(running))
        time.sleep(0.2)
        running.discard(plan.model.name)
        return schedule.Outcome(plan.model.name)

    monkeypatch.setattr(schedule, "build_in_worker", start)
    pool = schedule.Pool(lambda: ThreadPoolExecutor(4), print, worker_errors=())
    outcomes = schedule.run_builds(plans, pool, budget, lambda *finished: None)
    assert tuple(outcome.model for outcome in outcomes) == names
    assert max(counts) == most


@pytest.mark.full
def test_images_as_input(zoo):
    """A file that preprocesses images takes the photograph as uint8 pixels, in every variant."""
    zoo(*BUILD, "--input", "uint8")
    folder = zoo.here / "out" / MODEL
    golden = load_file(folder / "golden.safetensors")
    assert golden["image"].shape == (1, 224, 336, 3) and golden["image"].dtype == np.uint8
    zoo("verify", folder)
    assert "any height and width" in (folder / "README.md").read_text()


@pytest.mark.full
@pytest.mark.parametrize("size", [None, (336, 448)])
def test_golden_numbers_are_those_of_the_published_settings(size):
    """DINOv2 is verified at 518 x 518 pixels, but its published settings resize to 224 x 224."""
    entry = info("dinov2_vits14_reg")
    entry = entry.with_config(replace(entry.config, dim=32, depth=1, heads=2, hidden=64))
    model, weights = abstract(entry.config), random_weights(model_shapes(entry.config))
    signature = Signature(size, 1)
    samples = make_samples(entry, model, weights.arrays, signature)
    subject = Subject(entry, model, weights, is_network=True)
    staged = (None, Quiet())
    production = Production(Options(), None, subject, signature, lambda: samples, *staged)
    preprocessing = make_shared_manifest(
        entry, signature, weights.provenance
    ).preprocessing.settings
    assert preprocessing.size == (size or (224, 224))
    golden = make_golden(subject, choose_golden_sample(production, preprocessing))
    np.testing.assert_array_equal(
        golden.feeds["pixel_values"],
        pixel_values([photograph()], preprocessing, preprocessing.size),
    )
    outputs = jax.vmap(bind(model, weights.arrays))(golden.feeds["pixel_values"])
    assert set(golden.outputs) == {"last_hidden_state", "pooler_output"}
    for name, value in golden.outputs.items():
        np.testing.assert_allclose(value, getattr(outputs, name), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("variants", "with_sidecar", "expected"),
    [
        (("fp32", "int8"), (), {}),
        (("fp32", "fused"), (), {"device_config": {"wasm": {"dtype": "fp32"}}}),
        (("fused", "q4f16", "bf16"), (), {"device_config": {"wasm": {"dtype": "q4f16"}}}),
        (("fused",), (), {}),
        (("int8",), ("int8",), {"use_external_data_format": {"model_quantized.onnx": 1}}),
    ],
)
def test_settings_for_transformers_js(variants, with_sidecar, expected):
    assert transformers_js_settings(variants, with_sidecar) == expected


def test_every_network_has_settings():
    """The settings are of its class in transformers, of the class of its backbone, or hold at
    least the names of its classes."""
    settings = {name: portable_config(info(name).config, (), "own") for name in list_models()}
    depths = settings["depth_anything_v2_vits"], settings["depth_digits"]
    assert [config["model_type"] for config in depths] == ["depth_anything", "dinov3_vit"]
    assert all(
        len(config.get("id2label", ())) == info(name).config.classes
        for name, config in settings.items()
    )
