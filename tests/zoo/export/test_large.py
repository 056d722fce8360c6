"""Models too large for memory go through this: block by block in JAX, mapped in ONNX Runtime."""

import re
from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import onnx_ir as ir
import pytest

import zoo
from converter.model.saving import LARGEST_FILE
from converter.model.streaming import INLINE
from tests.converter.test_mapped import is_mapped
from tests.seeded import NETWORKS, nano, values_of
from tests.synthetic import make_image
from tests.zoo.export.test_precision import MODELS, sizes, write
from zoo import runtime
from zoo.errors import BadOutput
from zoo.export import resources
from zoo.export.make import convert_model
from zoo.export.precision import derive, runnable
from zoo.export.request import Options, Signature, read_request
from zoo.export.verify import reference, verify_file
from zoo.models.builder import abstract

ENTRY = zoo.info("dinov3_vits16")


def outside(file):
    """A copy of a small file whose tensors lie beside it, as those of a large one do."""
    copy = file.with_name(f"outside-{file.name}")
    ir.save(ir.load(file), copy, external_data=f"{copy.name}_data", size_threshold_bytes=INLINE)
    return copy


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(MODELS)[::3])
def test_block_by_block(name):
    """The same outputs as of the model that is compiled as a whole, at every size and batch."""
    config = MODELS[name]
    entry = replace(ENTRY, config=config)
    signature = Signature(sizes(config), None)
    args = (entry, abstract(config), values_of(config), signature)
    for whole, stepwise in zip(reference(*args), reference(*args, largest=0), strict=True):
        assert jax.tree.structure(whole.outputs) == jax.tree.structure(stepwise.outputs)
        np.testing.assert_array_equal(whole.pixels, stepwise.pixels)
        for one, other in zip(
            *map(jax.tree.leaves, (whole.outputs, stepwise.outputs)), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=0, atol=2e-5)


@pytest.mark.full
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "int8", "q4f16"])
def test_a_sidecar_is_verified(precision, tmp_path):
    signature = Signature((64, 96), None, (1, 2), True)
    config = nano(zoo.info("dinov3_vit7b16").config)
    entry, model, values = replace(ENTRY, config=config), abstract(config), values_of(config)
    file = tmp_path / "model.onnx"
    convert_model(model, 23, signature).save(file, values)
    if precision != "fp32":
        derive(file, tmp_path / "low.onnx", precision, make_image(0, 64, 96)[None])
        file = tmp_path / "low.onnx"
    samples = reference(entry, model, values, signature, largest=0)
    within, beside = (verify_file(each, samples, precision) for each in (file, outside(file)))
    assert within.passed and beside.passed
    for one, other in zip(within.comparisons, beside.comparisons, strict=True):
        assert one.output == other.output
        assert one.cosine == pytest.approx(other.cosine, abs=1e-4)
    live = runtime.session(runnable(outside(file), precision))
    assert is_mapped(live)


@pytest.mark.full
def test_a_wrong_tensor_beside_the_file_is_seen(tmp_path):
    config = nano(NETWORKS["dinov2_vits14"])
    signature = Signature(sizes(config), 1)
    entry, model, values = replace(ENTRY, config=config), abstract(config), values_of(config)
    samples = reference(entry, model, values, signature, largest=0)
    file = outside(write(tmp_path / "model.onnx", config, 23))
    assert verify_file(file, samples).passed
    data = file.with_name(f"{file.name}_data")
    content = np.fromfile(data, np.uint8)
    content[len(content) // 2 :][3:4096:4] ^= 1
    content.tofile(data)
    assert not verify_file(file, samples).passed


def asked(tmp_path, name="dinov3_vit7b16", **options):
    return read_request(zoo.info(name), Options(out=tmp_path / "new", **options))


class Notes:
    """What is told in the course of an export."""

    def __init__(self):
        self.notes = []
        self.note = self.notes.append


def test_room_is_asked_for_before_the_work(tmp_path, monkeypatch):
    """The sentence says what is needed and what there is; nothing was read or made by then."""
    monkeypatch.setattr(resources.shutil, "disk_usage", lambda path: SimpleNamespace(free=20e9))
    with pytest.raises(BadOutput, match=r"takes 26\.9 GB in .*, where 20\.0 GB are free: make"):
        resources.check_resources(asked(tmp_path), Notes())
    with pytest.raises(BadOutput, match=r"takes 40\.3 GB"):
        resources.check_resources(asked(tmp_path, precision="fp16"), Notes())
    assert list(tmp_path.iterdir()) == []


def test_memory_is_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(resources.shutil, "disk_usage", lambda path: SimpleNamespace(free=1e12))
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=2e9))
    for name, options, needed in (
        ("dinov3_vit7b16", {}, "2.6"),
        ("dinov3_vit7b16", {"precision": "int8"}, "2.6"),
        ("dinov3_vith16plus", {"precision": "fp16"}, "7.3"),
        ("dinov2_vitl14", {}, "3.0"),
        ("dinov2_vitl14", {"verify": False}, None),
        ("dinov3_vits16", {}, None),
    ):
        told = Notes()
        resources.check_resources(asked(tmp_path, name, **options), told)
        assert (needed is None) == (told.notes == [])
        if needed:
            assert f"{name} needs about {needed} GB of memory, and 2.0 GB are free" in told.notes[0]


def test_one_rule_of_size():
    assert resources.LARGEST == LARGEST_FILE


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("vit_digits", {"size": (224, 224)}, "784 times the patches .* 614,656 times as long"),
        ("dinov3_vits16", {"size": (448, 1792)}, "16 times the patches .* 256 times as long"),
        ("dinov3_vits16", {"size": (448, 448)}, None),
        ("dinov3_vits16", {"size": "dynamic"}, None),
        ("dinov3_vits16", {}, None),
        ("dinov3_convnext_tiny", {"size": (1792, 1792)}, None),  # has no attention
        ("vit_digits", {"size": (224, 224), "verify": False}, None),
    ],
)
def test_many_patches_are_told(name, options, told, tmp_path):
    notes = Notes()
    resources.check_resources(asked(tmp_path, name, **options), notes)
    found = [note for note in notes.notes if "patches" in note]
    assert [bool(re.search(told or "", note)) for note in found] == [True] * (told is not None)
