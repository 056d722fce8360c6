"""Exports of large models: sidecars, memory-mapped sessions, and checks of disk and memory."""

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


def write_with_sidecar(file):
    """Write a copy of a file with its tensors in a sidecar, as files above 2 GB have them."""
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
    """The verification is that of the file without sidecar, and fails for wrong tensors in it."""
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
    unsplit, split = (
        verify_file(path, samples, precision) for path in (file, write_with_sidecar(file))
    )
    assert unsplit.passed and split.passed
    for expected, actual in zip(unsplit.comparisons, split.comparisons, strict=True):
        assert expected.output == actual.output
        assert expected.cosine == pytest.approx(actual.cosine, abs=1e-4)
    assert is_mapped(runtime.session(to_runnable(write_with_sidecar(file), precision)))
    if precision == "fp32":
        copy = write_with_sidecar(file)
        data = copy.with_name(f"{copy.name}_data")
        content = np.fromfile(data, np.uint8)
        content[len(content) // 2 :][3:4096:4] ^= 1
        content.tofile(data)
        assert not verify_file(copy, samples).passed


@pytest.fixture
def note_resources(tmp_path, monkeypatch):
    """Return a function that checks the resources for an export and returns the notes.

    It takes the model, the free bytes of the disk and of memory, and options of the export.
    """

    def note(name, free_bytes=1e12, free_memory_bytes=1e12, **options):
        monkeypatch.setattr(
            resources.shutil, "disk_usage", lambda path: SimpleNamespace(free=free_bytes)
        )
        free_memory, notes = SimpleNamespace(available=free_memory_bytes), []
        monkeypatch.setattr("psutil.virtual_memory", lambda: free_memory)
        request = plan_files(zoo.info(name), Options(out=tmp_path / "new", **options))
        resources.check_resources(request, SimpleNamespace(note=notes.append))
        return "".join(notes)

    return note


def test_disk_space_is_checked_before_the_work(tmp_path, note_resources):
    """The error names the needed and the free space, and nothing was written."""
    assert resources.MAX_UNSPLIT_BYTES == MAX_FILE_BYTES
    with pytest.raises(BadOutput, match=r"takes 26\.9 GB in .*, where 20\.0 GB are free: make"):
        note_resources("dinov3_vit7b16", free_bytes=20e9)
    with pytest.raises(BadOutput, match=r"takes 40\.3 GB"):
        note_resources("dinov3_vit7b16", free_bytes=20e9, precision="fp16")
    assert list(tmp_path.iterdir()) == []


MEMORY = "NAME needs about {} GB of memory, and 2.0 GB are free"


def test_notes_about_memory_and_time(note_resources):
    for name, options, expected in (
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
        actual = note_resources(name, free_memory_bytes=2e9, **options)
        assert re.search(expected.replace("NAME", name), actual) if expected else actual == ""
