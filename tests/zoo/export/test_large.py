"""Models too large for memory go through this: block by block in JAX, mapped in ONNX Runtime."""

import re
from types import SimpleNamespace

import numpy as np
import onnx_ir as ir
import pytest

import zoo
from converter.model.saving import MAX_FILE_BYTES
from converter.model.streaming import MAX_INLINE_BYTES
from tests.converter.test_mapped import is_mapped
from tests.seeded import nano, values_of
from tests.synthetic import make_image
from zoo.architectures.builder import abstract
from zoo.common import runtime
from zoo.common.errors import BadOutput
from zoo.export import resources
from zoo.export.make import convert_model
from zoo.export.precision import write_lower_precision
from zoo.export.request import Options, Signature, plan_files
from zoo.export.verify import make_samples, to_runnable, verify_file

ENTRY = zoo.info("dinov3_vits16")


def outside(file):
    """A copy of a small file whose tensors lie beside it, as those of a large one do."""
    copy = file.with_name(f"outside-{file.name}")
    ir.save(
        ir.load(file),
        copy,
        external_data=f"{copy.name}_data",
        size_threshold_bytes=MAX_INLINE_BYTES,
    )
    return copy


@pytest.mark.full
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "int8", "q4f16"])
def test_a_sidecar_is_verified(precision, tmp_path, monkeypatch):
    """As the file that holds its tensors; and a wrong tensor in it is seen."""
    signature = Signature((64, 96), None, (1, 2), True)
    config = nano(zoo.info("dinov3_vit7b16").config)
    entry, model, values = ENTRY.with_config(config), abstract(config), values_of(config)
    file = tmp_path / "model.onnx"
    convert_model(model, 23, signature).save(file, values)
    if precision != "fp32":
        write_lower_precision(file, tmp_path / "low.onnx", precision, [make_image(0, 64, 96)[None]])
        file = tmp_path / "low.onnx"
    monkeypatch.setattr("zoo.export.verify.MAX_UNSPLIT_BYTES", 0)
    samples = make_samples(entry, model, values, signature)
    within, beside = (verify_file(each, samples, precision) for each in (file, outside(file)))
    assert within.passed and beside.passed
    for one, other in zip(within.comparisons, beside.comparisons, strict=True):
        assert one.output == other.output
        assert one.cosine == pytest.approx(other.cosine, abs=1e-4)
    assert is_mapped(runtime.session(to_runnable(outside(file), precision)))
    if precision == "fp32":
        copy = outside(file)
        data = copy.with_name(f"{copy.name}_data")
        content = np.fromfile(data, np.uint8)
        content[len(content) // 2 :][3:4096:4] ^= 1
        content.tofile(data)
        assert not verify_file(copy, samples).passed


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Says what is told before the work on an export where there is so much room and memory."""

    def told(name, room=1e12, memory=1e12, **options):
        monkeypatch.setattr(resources.shutil, "disk_usage", lambda path: SimpleNamespace(free=room))
        found, said = SimpleNamespace(available=memory), []
        monkeypatch.setattr("psutil.virtual_memory", lambda: found)
        request = plan_files(zoo.info(name), Options(out=tmp_path / "new", **options))
        resources.check_resources(request, SimpleNamespace(note=said.append))
        return "".join(said)

    return told


def test_room_is_asked_for_before_the_work(tmp_path, notes):
    """The sentence says what is needed and what there is; nothing was read or made by then."""
    assert resources.MAX_UNSPLIT_BYTES == MAX_FILE_BYTES
    with pytest.raises(BadOutput, match=r"takes 26\.9 GB in .*, where 20\.0 GB are free: make"):
        notes("dinov3_vit7b16", room=20e9)
    with pytest.raises(BadOutput, match=r"takes 40\.3 GB"):
        notes("dinov3_vit7b16", room=20e9, precision="fp16")
    assert list(tmp_path.iterdir()) == []


MEMORY = "NAME needs about {} GB of memory, and 2.0 GB are free"


def test_what_is_told_before_the_work(notes):
    for name, options, told in (
        ("dinov3_vit7b16", {}, MEMORY.format(2.6)),
        ("dinov3_vit7b16", {"precision": "int8"}, MEMORY.format(2.6)),
        ("dinov3_vith16plus", {"precision": "fp16"}, MEMORY.format(7.3)),
        ("dinov2_vitl14", {}, MEMORY.format("3.0")),
        ("dinov2_vitl14", {"verify": False}, None),
        ("dinov3_vits16", {}, None),
        ("vit_digits", {"size": (224, 224)}, "784 times the patches .* 614,656 times as long"),
        ("dinov3_vits16", {"size": (448, 1792)}, "16 times the patches .* 256 times as long"),
        ("dinov3_vits16", {"size": (448, 448)}, None),
        ("dinov3_vits16", {"size": "dynamic"}, None),
        ("dinov3_convnext_tiny", {"size": (1792, 1792)}, None),  # has no attention
        ("vit_digits", {"size": (224, 224), "verify": False}, None),
    ):
        found = notes(name, memory=2e9, **options)
        assert re.search(told.replace("NAME", name), found) if told else found == ""
