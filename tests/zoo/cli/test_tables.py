"""Tables on 80 columns and in pipes: nothing is cut."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests import folders
from zoo.artifacts.audit.findings import AuditReport, FileReport, Finding
from zoo.bench.floor import Floor
from zoo.bench.footprint import Footprint
from zoo.bench.inputs import BenchOptions, Spec
from zoo.bench.measure import Bench, Contender
from zoo.bench.timed_products import Products, TimedProduct
from zoo.cli import dry_run
from zoo.cli.build_command import show_builds
from zoo.cli.golden_command import golden_errors, show_differences
from zoo.cli.models_command import show_models
from zoo.cli.pull_command import show_preview
from zoo.cli.push_command import show_plan
from zoo.cli.tables import export_table
from zoo.cli.tables.bench_table import show_bench
from zoo.cli.verify_command import show_audit
from zoo.export.bulk import Outcome
from zoo.export.exporter import Exported
from zoo.hub.pull import Preview
from zoo.hub.push import PushedFile, PushPlan, Target
from zoo.manifest.read import parse
from zoo.registry.lookup import MODELS

NAMES = ("siglip2_vitso400m14_378", "vit_huge_patch14_224", max(MODELS, key=len))
BYTES = 26_864_200_000
FILE = {"name": "a.onnx", "bytes": BYTES, "sha256": "0" * 64}
FUSED = {"Attention": 40, "Gelu": 40, "LayerNormalization": 81, "RotaryEmbedding": 80}
ERRORS = {"max_abs": 1.234e-5, "max_rel": 1e-3, "cosine": 0.9999987}
COMPARISONS = [
    {"output": output, "batch": batch, "height": 1022, "width": 1022} | ERRORS
    for output in ("last_hidden_state", "hidden_state_12")
    for batch in (1, 3)
]


def record(name, measure="cosine", labels=("int8",)):
    """The manifest of a very large model."""
    variant = folders.manifest(folders.contents())["variants"]["fp32"]
    variant |= {"files": ["a.onnx"], "opset": 23, "precision": "int8", "nodes": 12345}
    checked = {"input": "a photograph", "measure": measure, "comparisons": COMPARISONS}
    variant |= {"fused": FUSED, "verification": folders.VERIFICATION | checked}
    speeds = {"runtime": "r", "machine": "m", "input": [1, 3, 8, 8], "rounds": 1}
    speeds["variants"] = {"int8": {"p50_ms": 1.0, "ratio": 12.34}}
    content = folders.manifest({}, files=[FILE], model=name, speeds=speeds)
    content["variants"] = dict.fromkeys(labels, variant)
    return parse(json.dumps(content).encode(), "the manifest")


def show_everything(name):
    path = Path(f"artifacts/{name}/onnx/model_fused.onnx")
    finding = Finding("fused operators", True, "12 Attention, 12 Gelu, 25 LayerNormalization. " * 3)
    report = FileReport("fused", "onnx/model_fused.onnx", True, [finding])
    one, built = record(name), record(name, labels=("fp32", "fused", "int8"))
    show_models([MODELS[name]])
    export_table.show_exports([Exported(path, one, True)])
    export_table.show_outcomes([Outcome(name, [one, record(name, "max_abs")], seconds=1234.5)])
    export_table.show_verification(path, one.only.verification)
    show_builds([Outcome(name, [built])])
    show_preview(path.parent, Preview("somebody/x at 0123456789ab", built.files, BYTES, 3))
    rows = tuple(PushedFile(str(path), BYTES, "0" * 64, word) for word in ("unknown", "changed"))
    show_plan(PushPlan(path.parent, Target(f"somebody/{name}"), name, "exists", rows, ()))
    errors = golden_errors("ONNX", {"last_hidden_state": 1e-5, "pooler_output": 1.0}, 1e-4)
    show_differences(f"{name} against transformers 5.23.0 ({name}.npz)", errors)
    dry_run._show([dry_run.Planned(name, "random (seed 0)", {str(path): BYTES})], "and so on")
    show_audit(AuditReport("a", name, "CPUExecutionProvider", True, [finding], [report]))


HEADINGS = (
    "model family params input licence weights from",
    "opset MB nodes fused difference from JAX",
    "model opset MB nodes fused from JAX s",
    "output batch size max abs max rel cosine",
    "model file MB nodes from JAX speed",
    "file bytes",
    "file bytes there",
    "where output max abs limit",
    "file MB, about",
    "of check found",
)


@pytest.mark.parametrize("name", NAMES)
def test_eighty_columns_hold_every_heading_and_number(name, monkeypatch, capsys):
    """Those of benchmarks have two lines, and long paths may wrap there."""
    monkeypatch.setenv("COLUMNS", "80")
    show_everything(name)
    told = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert "…" not in told.replace("sha256 ", "")
    assert set(HEADINGS) <= set(lines)
    for number in ("12345", "26864.2", "cosine 0.999999", "26,864,200,000", "26,864.2", "x 12.34"):
        assert number in told
    assert sum(name in line for line in lines) >= 8
    product = TimedProduct("MatMul", (1, 5330, 4096), (4096, 8192), constant=True)
    floor = Floor(Products(Counter({product: 40})), {product: 0.25})
    spec, taken = Spec("pixel_values", "float32", (1, 3, 8, 8)), Footprint(123.45, BYTES, BYTES)
    file = Contender(f"artifacts/{name}/onnx/model_fused.onnx", [spec], [12.3456], taken)
    show_bench(Bench(BenchOptions(), [file, file], floor))
    told = capsys.readouterr().out
    assert "…" not in told
    words = "first products p50 p95 load peak kept 26864 12345.6 123.45"
    assert all(word in told for word in words.split())


def test_a_pipe_gets_whole_lines(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    show_everything(NAMES[0])
    told = capsys.readouterr().out
    assert "12 Attention, 12 Gelu, 25 LayerNormalization. " * 2 in told
    assert f"artifacts/{NAMES[0]}/onnx/model_fused.onnx" in told
