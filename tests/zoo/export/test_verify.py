"""`zoo verify` on folders and files: valid ones pass, and changed or damaged ones fail."""

import hashlib
import json
import os
import shutil
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import equinox as eqx
import jax
import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file

import zoo
from tests import folders
from tests.runtimes.load import needs_placement
from weights.errors import NotACheckpoint, WeightsNotFound
from zoo.artifacts.read import parse_manifest
from zoo.checkpoints.source import SeededWeights
from zoo.cli.console import print_json
from zoo.cli.verify_command import report_record
from zoo.common import runtime
from zoo.common.errors import BadFile
from zoo.common.progress import LogProgress
from zoo.common.runtime import CPU
from zoo.export.audit.checks import audit_export, audit_folder, audit_folder_file
from zoo.export.audit.jax import choose_weights, read_manifest_signature
from zoo.export.audit.onnx_file import read_graph

MODEL = "onnx/model.onnx"


@pytest.fixture
def folder(built, tmp_path):
    """A copy of the built folder with two of its variants, as a pull leaves it."""
    other_files = shutil.ignore_patterns(
        "model_fp16.onnx", "model_bf16.onnx", "model_quantized.onnx"
    )
    return shutil.copytree(built[0], tmp_path / "vit_digits", ignore=other_files)


audit = partial(audit_folder, provider=CPU, progress=LogProgress())
audit_network = partial(audit_folder_file, provider=CPU, progress=LogProgress())


def rewrite_manifest(folder, **changes):
    """Rewrite a manifest so that it describes the files as they are now."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    for item in content["files"]:
        if not (folder / item["name"]).exists():
            continue
        data = (folder / item["name"]).read_bytes()
        item |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    path.write_text(json.dumps(content | changes))


def failures(report):
    """Return the details of failed checks, by `folder` or variant and the name of the check."""
    findings_by_place = {"folder": report.findings} | {
        variant.name: variant.findings for variant in report.variants
    }
    return {
        f"{place}: {finding.check}": finding.detail
        for place, findings in findings_by_place.items()
        for finding in findings
        if not finding.passed
    }


def failed_checks(folder):
    """Audit a folder. Return the places and names of failed checks."""
    return set(failures(audit(folder)))


def test_a_valid_folder(built, zoo):
    report = zoo.json("verify", built[0])
    assert report["passed"] and report["absent"] == []
    assert [v["name"] for v in report["variants"]] == ["fp32", "fused", "fp16", "bf16", "int8"]
    checks = ["graph", "checker", "fused", "loads", "signature", "fallback", "golden"]
    worst = []
    for variant in report["variants"]:
        assert [finding["check"] for finding in variant["findings"]] == checks
        assert variant["elsewhere"] == {}
        comparisons = variant["verification"]["comparisons"]
        outputs = [row["output"] for row in comparisons]
        assert outputs == ["last_hidden_state", "pooler_output", "logits"]
        worst.append(max(row["max_abs"] for row in comparisons))
    assert worst[0] < 1e-4 < worst[4]


def test_golden_numbers_at_every_level(built, monkeypatch):
    """A difference at a lower optimization level only is reported with the level."""

    def open_wrong_session(model, provider):
        session = runtime.session(model)
        yield (
            "basic",
            SimpleNamespace(
                get_inputs=session.get_inputs,
                get_outputs=session.get_outputs,
                run=lambda *arguments: [-y for y in session.run(*arguments)],
            ),
        )

    monkeypatch.setattr(runtime, "sessions_below_highest_level", open_wrong_session)
    failed_findings = failures(audit(built[0]))
    assert {*failed_findings} == {f"{v}: golden" for v in ("fp32", "fused", "fp16", "bf16", "int8")}
    assert all(
        detail.endswith("at optimisation level 'basic'") for detail in failed_findings.values()
    )


def test_a_file_that_fails_at_a_lower_level(built, monkeypatch):
    """A variant fails if it runs only at the highest optimization level."""
    open_sessions = Mock(side_effect=RuntimeError("no kernel"))
    monkeypatch.setattr(runtime, "sessions_below_highest_level", open_sessions)
    failed_findings = failures(audit(built[0]))
    assert {*failed_findings} == {f"{v}: golden" for v in ("fp32", "fused", "fp16", "bf16", "int8")}
    assert {*failed_findings.values()} == {"no kernel, below the highest optimisation level"}


def test_one_file_of_a_folder(built, zoo):
    printed = zoo("verify", built[0] / "onnx/model_fused.onnx").out
    assert "passed" in printed and "4 Attention" in printed and "fp32" not in printed
    refused = zoo("verify", built[0], "--provider", "NoExecutionProvider", code=2)
    assert "not installed" in refused.error and refused.err.count("\n") == 1


def test_a_pulled_folder_has_some_variants(folder):
    (folder / "onnx/model_fused.onnx").unlink()
    report = audit(folder)
    assert report.passed and report.absent == ["fused", "fp16", "bf16", "int8"]
    shutil.rmtree(folder / "onnx")
    assert failed_checks(folder) == {"folder: variants"}


@needs_placement
def test_an_exported_file(zoo):
    """The file is compared with JAX in its precision, and its graph with the manifest."""
    half = ("--precision", "fp16", "--no-verify")
    zoo("export", "vit_digits", "--size", "8x16", *half, "--out", "v.onnx")
    manifest = zoo.here / "v.manifest.json"
    content = json.loads(manifest.read_text())
    assert content["variants"]["fp16"]["fused"].pop("Attention") == 4
    manifest.write_text(json.dumps(content))
    report = zoo.json("verify", "v.onnx", "--provider", "AzureExecutionProvider", code=1)
    assert report["findings"][0]["passed"] and not report["passed"]
    (variant,) = report["variants"]
    verification = variant["verification"]
    assert (variant["passed"], verification["passed"], verification["measure"]) == (
        False,
        True,
        "cosine",
    )
    checks = {finding["check"]: finding["passed"] for finding in variant["findings"]}
    names = ("graph", "checker", "loads", "signature", "fallback", "JAX")
    assert checks == dict.fromkeys(names, True) | {"fused": False}
    assert variant["elsewhere"][CPU]["Attention"] == 4
    for row in verification["comparisons"]:
        assert row["cosine"] > 0.9999 and (row["height"], row["width"]) == (8, 16)


def scaled(folder):
    """Multiply a weight by 1.02."""
    model = onnx.load(folder / MODEL)
    weight = next(t for t in model.graph.initializer if t.dims == [64, 192])
    values = onnx.numpy_helper.to_array(weight) * np.float32(1.02)
    weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    onnx.save(model, folder / MODEL)


def exchanged(folder):
    """Replace the fused file by the decomposed one, and rename the input of the latter."""
    shutil.copy(folder / MODEL, folder / "onnx/model_fused.onnx")
    model = onnx.load(folder / MODEL)
    model.graph.input[0].name = "images"
    for node in model.graph.node:
        node.input[:] = ["images" if name == "pixel_values" else name for name in node.input]
    onnx.save(model, folder / MODEL)


def reaching_out(folder):
    """Move a tensor to a file outside of the model's folder."""
    model = onnx.load(folder / MODEL)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../golden.safetensors")
    (folder / MODEL).write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (scaled, {"fp32: golden"}),
        (exchanged, {"fused: fused", "fp32: signature", "fp32: golden"}),
        (reaching_out, {"fp32: graph"}),
    ],
)
def test_changed_files(change, expected, folder, zoo):
    """Files with wrong digests are not read. With correct ones, all their faults are reported."""
    change(folder)
    unread = {"fp32: graph", "fused: graph"} if change is exchanged else {"fp32: graph"}
    assert failed_checks(folder) == unread | {"folder: files"}
    rewrite_manifest(folder, complete=False)
    assert failed_checks(folder) == expected | {"folder: manifest"}
    assert zoo("verify", folder, code=1).out.count("FAILED") == len(expected) + 2


def test_unlisted_files_and_links(folder):
    (folder / ".cache").mkdir()
    (folder / ".cache/anything").touch()
    assert audit(folder).passed
    (folder / "note\n.txt").touch()
    (folder / "LICENSE").rename(folder / ".licence")
    (folder / "LICENSE").symlink_to(".licence")
    os.mkfifo(folder / "onnx/pipe")
    assert failures(audit(folder)) == {
        "folder: files": "LICENSE is reached through a symbolic link",
        "folder: nothing else": "'note\\n.txt' is not listed; LICENSE is a symbolic link; "
        "onnx/pipe is not listed",
    }


@pytest.mark.parametrize(("count", "last"), [(10, "9 is not listed"), (11, "1 more")])
def test_ten_unlisted_files_are_named(folder, count, last):
    for number in range(count):
        (folder / f"{number:02}").touch()
    detail = failures(audit(folder))["folder: nothing else"]
    assert detail.endswith(last) and detail.count(" is not listed") == 10


@pytest.mark.parametrize("name", ["golden.safetensors", MODEL])
def test_damaged_files(folder, name):
    """Files that are cut, empty or have flipped bits in their description only fail the checks."""
    path = folder / name
    valid = path.read_bytes()
    # The names of nodes and operators lie before or after the weights.
    start = valid.find(b"LayerNormalization") if name == MODEL else 0
    damaged = [valid[: len(valid) // 2], b"", b"\xff" * 64 + valid]
    for spot in np.random.default_rng(0).integers(0, 400, 5):
        data = bytearray(valid)
        data[start + spot] ^= 1 << (spot % 8)
        damaged.append(bytes(data))
    for number, data in enumerate(damaged):
        path.write_bytes(data)
        assert "folder: files" in failures(audit_network(folder / MODEL))
        rewrite_manifest(folder)
        report = audit_network(folder / MODEL)
        print_json(report_record(report))
        failed_names = failures(report).keys() & {
            "folder: golden numbers",
            "fp32: graph",
            "fp32: loads",
        }
        assert failed_names or number > 2


def test_wrong_golden_numbers(folder):
    path = folder / "golden.safetensors"
    arrays = load_file(path)
    for changes in (
        {"pixel_values": arrays["pixel_values"][:, :2]},
        {"logits": arrays["logits"] * np.nan},
        {"logits": arrays["logits"][:, :5]},
        {"other": arrays["logits"]},
        {"pixel_values": arrays["pixel_values"].astype(np.float16)},
    ):
        save_file({k: np.ascontiguousarray(v) for k, v in (arrays | changes).items()}, path)
        rewrite_manifest(folder)
        assert "fp32: golden" in failed_checks(folder), changes


def parse_doubling_functions(depth, first):
    """Return a model whose functions call the previous one twice. The first calls `first`."""
    bodies = [f"y = {first}(x)"] + [f"a = own.f{n}(x) y = own.f{n}(a)" for n in range(depth)]
    declared = '<domain: "own", opset_import: ["": 18, "own": 1]>'
    functions = (f"{declared} f{n}(x) => (y) {{ {body} }}" for n, body in enumerate(bodies))
    main = '<ir_version: 10, opset_import: ["": 18, "own": 1]> agraph (float[1] x) => (float[1] y)'
    return onnx.parser.parse_model("\n".join((f"{main} {{ y = own.f{depth}(x) }}", *functions)))


@pytest.mark.parametrize("depth", [0, 3, 40, 2000])
@pytest.mark.parametrize("calls_itself", [False, True])
def test_functions_that_expand_to_many_nodes(depth, calls_itself, tmp_path):
    model = parse_doubling_functions(depth, f"own.f{depth}" if calls_itself else "Identity")
    onnx.save(model, tmp_path / "model.onnx")
    finding, _ = read_graph(tmp_path / "model.onnx", [])
    assert finding.passed == (depth <= 3 and not calls_itself)


ENTRY = zoo.info(folders.MODEL)
FILES = {"a.onnx": b"network", "a.onnx_data": b"tensors"}
VARIANT = folders.manifest(folders.contents())["variants"]["fp32"] | {"files": list(FILES)}
PIXELS = {"name": "pixel_values", "dtype": "float32", "shape": ["batch_size", 3, 32, 48]}


def audit_file(file, weights=None):
    """Audit an export. Return the report, and the findings about files and network by name."""
    report = audit_export(file, weights, CPU, LogProgress())
    (variant,) = report.variants
    findings = {finding.check: finding for finding in (*report.findings, *variant.findings)}
    assert report.passed == all(finding.passed for finding in findings.values())
    return report, findings


def describe_export(inputs=(PIXELS,), **changes):
    """Return the manifest of a file with a sidecar, with these changes."""
    variant = VARIANT | {"inputs": list(inputs)}
    content = folders.manifest(FILES, variants={"fp32": variant}, **changes)
    return parse_manifest(json.dumps(content).encode(), "the manifest")


def with_shape(*shape):
    """Return the change of a manifest to this shape of the input."""
    return {"inputs": [PIXELS | {"shape": shape}]}


@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": []},
        with_shape(),
        with_shape(0, 3),
        {"size": [33, 48]},
        {"layers": [13]},
        {"outputs": ["logits"]},
    ],
    ids=str,
)
def test_impossible_signatures_are_refused(changes):
    with pytest.raises(BadFile, match="describes no export of dinov3_vits16"):
        read_manifest_signature(describe_export(**changes), ENTRY)


def test_renamed_and_changed_files_of_an_export(tmp_path):
    folders.write(tmp_path, FILES)
    for name in "ab":
        (tmp_path / f"{name}.manifest.json").write_text(describe_export().model_dump_json())
    with pytest.raises(BadFile, match="keep the names"):
        audit_export(tmp_path / "b.onnx", None, CPU, LogProgress())
    (tmp_path / "a.onnx_data").write_bytes(b"Tensors")
    _, findings = audit_file(tmp_path / "a.onnx")
    assert findings["files"].detail == "a.onnx_data has another sha256"
    assert not findings["files"].passed
    assert not findings["graph"].passed and "not read" in findings["graph"].detail


def test_custom_networks(tmp_path):
    """The checkpoint of a custom network has to be given.

    Without it, the other checks run, and a finding says that JAX was not compared.
    """
    digits = zoo.from_pretrained("vit_digits")
    model = jax.tree.map(lambda leaf: leaf * 1.01, digits)
    file, checkpoint = tmp_path / "mine.onnx", tmp_path / "mine.eqx"
    zoo.to_onnx(model, file, size=8)
    eqx.tree_serialise_leaves(checkpoint, model)
    report, findings = audit_file(file)
    assert report.passed and "user's own" in findings["JAX"].detail
    assert report.variants[0].verification is None
    report, _ = audit_file(file, str(checkpoint))
    verification = report.variants[0].verification
    assert report.passed and verification.measure == "max_rel"
    assert {row.output for row in verification.comparisons} >= {"pooler_output", "logits"}
    with pytest.raises(BadFile, match="other weights"):
        audit_file(file, "auto")
    # A manifest does not record how a network was cut, so that it cannot be compared with JAX.
    cut = eqx.tree_at(lambda m: m.blocks, digits, digits.blocks[:3])
    zoo.to_onnx(cut, file, size=8, verify=False)
    eqx.tree_serialise_leaves(checkpoint, cut)
    report, findings = audit_file(file)
    assert report.passed and "not verified" in findings["JAX"].detail
    with pytest.raises(NotACheckpoint, match="not those of a model"):
        audit_file(file, str(checkpoint))


def test_weights_of_a_manifest():
    def choose(option=None, **weights):
        return choose_weights(option, describe_export(weights=weights), ENTRY, LogProgress())

    assert choose(kind="random", seed=7) == SeededWeights(7)
    assert choose("random", kind="random", seed=7) == SeededWeights(0)
    with pytest.raises(BadFile, match="names no checkpoint"):
        choose(kind="own")
    with pytest.raises(WeightsNotFound, match=r"no nowhere\.pth in"):
        choose(kind="meta", name="nowhere.pth", sha256="0" * 64)
