"""`zoo verify` on folders and files: what is right passes, and no damage goes unnoticed."""

import hashlib
import json
import os
import shutil
from functools import partial
from types import SimpleNamespace

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
    """With two of its variants, as if it had been pulled."""
    others = shutil.ignore_patterns("model_fp16.onnx", "model_bf16.onnx", "model_quantized.onnx")
    return shutil.copytree(built[0], tmp_path / "vit_digits", ignore=others)


audit = partial(audit_folder, provider=CPU, progress=LogProgress())
audit_network = partial(audit_folder_file, provider=CPU, progress=LogProgress())


def listed(folder, **changes):
    """Rewrite a manifest so that it describes the files as they are now."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    for item in content["files"]:
        if not (folder / item["name"]).exists():
            continue
        data = (folder / item["name"]).read_bytes()
        item |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    path.write_text(json.dumps(content | changes))


def told(report):
    """What a failed check says, by the place and the name of the check."""
    places = {"folder": report.findings} | {each.name: each.findings for each in report.variants}
    return {
        f"{place}: {finding.check}": finding.detail
        for place, findings in places.items()
        for finding in findings
        if not finding.passed
    }


def failed(folder):
    return set(told(audit(folder)))


def test_a_sound_folder(built, zoo):
    report = zoo.json("verify", built[0])
    assert report["passed"] and report["absent"] == []
    assert [v["name"] for v in report["variants"]] == ["fp32", "fused", "fp16", "bf16", "int8"]
    checks = ["graph", "checker", "fused", "loads", "signature", "fallback", "golden"]
    worst = []
    for variant in report["variants"]:
        assert [finding["check"] for finding in variant["findings"]] == checks
        assert variant["elsewhere"] == {}
        comparisons = variant["verification"]["comparisons"]
        outputs = [each["output"] for each in comparisons]
        assert outputs == ["last_hidden_state", "pooler_output", "logits"]
        worst.append(max(each["max_abs"] for each in comparisons))
    assert worst[0] < 1e-4 < worst[4]


def test_golden_numbers_at_every_level(built, monkeypatch):
    """What is wrong below the highest level of optimisation only is said with the level."""

    def lower(model, provider):
        live = runtime.session(model)
        yield (
            "basic",
            SimpleNamespace(
                get_inputs=live.get_inputs,
                get_outputs=live.get_outputs,
                run=lambda *how: [-y for y in live.run(*how)],
            ),
        )

    monkeypatch.setattr(runtime, "lower_sessions", lower)
    found = told(audit(built[0]))
    assert {*found} == {f"{v}: golden" for v in ("fp32", "fused", "fp16", "bf16", "int8")}
    assert all(each.endswith("at optimisation level 'basic'") for each in found.values())


def test_one_file_of_a_folder(built, zoo):
    told = zoo("verify", built[0] / "onnx/model_fused.onnx").out
    assert "passed" in told and "4 Attention" in told and "fp32" not in told
    said = zoo("verify", built[0], "--provider", "NoExecutionProvider", code=2)
    assert "not installed" in said.error and said.err.count("\n") == 1


def test_a_pulled_folder_has_some_variants(folder):
    (folder / "onnx/model_fused.onnx").unlink()
    report = audit(folder)
    assert report.passed and report.absent == ["fused", "fp16", "bf16", "int8"]
    shutil.rmtree(folder / "onnx")
    assert failed(folder) == {"folder: variants"}


@needs_placement
def test_an_exported_file(zoo):
    """Against JAX as before, in the precision that its manifest says, and its graph as well."""
    half = ("--precision", "fp16", "--no-verify")
    zoo("export", "vit_digits", "--size", "8x16", *half, "--out", "v.onnx")
    manifest = zoo.here / "v.manifest.json"
    content = json.loads(manifest.read_text())
    assert content["variants"]["fp16"]["fused"].pop("Attention") == 4
    manifest.write_text(json.dumps(content))
    report = zoo.json("verify", "v.onnx", "--provider", "AzureExecutionProvider", code=1)
    assert report["findings"][0]["passed"] and not report["passed"]
    (found,) = report["variants"]
    compared = found["verification"]
    assert (found["passed"], compared["passed"], compared["measure"]) == (False, True, "cosine")
    checks = {finding["check"]: finding["passed"] for finding in found["findings"]}
    names = ("graph", "checker", "loads", "signature", "fallback", "JAX")
    assert checks == dict.fromkeys(names, True) | {"fused": False}
    assert found["elsewhere"][CPU]["Attention"] == 4
    for each in compared["comparisons"]:
        assert each["cosine"] > 0.9999 and (each["height"], each["width"]) == (8, 16)


def scaled(folder):
    """One weight, a fiftieth larger."""
    model = onnx.load(folder / MODEL)
    weight = next(t for t in model.graph.initializer if t.dims == [64, 192])
    values = onnx.numpy_helper.to_array(weight) * np.float32(1.02)
    weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    onnx.save(model, folder / MODEL)


def exchanged(folder):
    """Decomposed where it should be fused, and other names."""
    shutil.copy(folder / MODEL, folder / "onnx/model_fused.onnx")
    model = onnx.load(folder / MODEL)
    model.graph.input[0].name = "images"
    for node in model.graph.node:
        node.input[:] = ["images" if name == "pixel_values" else name for name in node.input]
    onnx.save(model, folder / MODEL)


def reaching_out(folder):
    """A tensor in a file outside of the model's folder."""
    model = onnx.load(folder / MODEL)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../golden.safetensors")
    (folder / MODEL).write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (scaled, {"fp32: golden"}),
        (exchanged, {"fused: fused", "fp32: signature", "fp32: golden"}),
        (reaching_out, {"fp32: graph"}),
    ],
)
def test_changed_files(change, wanted, folder, zoo):
    """By digest, and then nothing of them is read; and by what is in them, all told at once."""
    change(folder)
    unread = {"fp32: graph", "fused: graph"} if change is exchanged else {"fp32: graph"}
    assert failed(folder) == unread | {"folder: files"}
    listed(folder, complete=False)
    assert failed(folder) == wanted | {"folder: manifest"}
    assert zoo("verify", folder, code=1).out.count("FAILED") == len(wanted) + 2


def test_files_that_do_not_belong(folder):
    (folder / ".cache").mkdir()
    (folder / ".cache/anything").touch()
    assert audit(folder).passed
    (folder / "note\n.txt").touch()
    (folder / "LICENSE").rename(folder / ".licence")
    (folder / "LICENSE").symlink_to(".licence")
    os.mkfifo(folder / "onnx/pipe")
    assert told(audit(folder)) == {
        "folder: files": "LICENSE is reached through a symbolic link",
        "folder: nothing else": "'note\\n.txt' is not listed; LICENSE is a symbolic link; "
        "onnx/pipe is not listed",
    }


@pytest.mark.parametrize(("count", "last"), [(10, "9 is not listed"), (11, "1 more")])
def test_ten_of_the_files_that_do_not_belong_are_named(folder, count, last):
    for number in range(count):
        (folder / f"{number:02}").touch()
    said = told(audit(folder))["folder: nothing else"]
    assert said.endswith(last) and said.count(" is not listed") == 10


@pytest.mark.parametrize("name", ["golden.safetensors", MODEL])
def test_damaged_files(folder, name):
    """Cut, empty, or with bits turned where it says what the rest is: never more than a failure."""
    path = folder / name
    sound = path.read_bytes()
    # The names of nodes and operators lie before or after the weights.
    where = sound.find(b"LayerNormalization") if name == MODEL else 0
    damaged = [sound[: len(sound) // 2], b"", b"\xff" * 64 + sound]
    for spot in np.random.default_rng(0).integers(0, 400, 5):
        data = bytearray(sound)
        data[where + spot] ^= 1 << (spot % 8)
        damaged.append(bytes(data))
    for number, data in enumerate(damaged):
        path.write_bytes(data)
        assert "folder: files" in told(audit_network(folder / MODEL))
        listed(folder)
        report = audit_network(folder / MODEL)
        print_json(report_record(report))
        cut = told(report).keys() & {"folder: golden numbers", "fp32: graph", "fp32: loads"}
        assert cut or number > 2


def test_golden_numbers_of_something_else(folder):
    path = folder / "golden.safetensors"
    arrays = load_file(path)
    for changed in (
        {"pixel_values": arrays["pixel_values"][:, :2]},
        {"logits": arrays["logits"] * np.nan},
        {"logits": arrays["logits"][:, :5]},
        {"other": arrays["logits"]},
        {"pixel_values": arrays["pixel_values"].astype(np.float16)},
    ):
        save_file({k: np.ascontiguousarray(v) for k, v in (arrays | changed).items()}, path)
        listed(folder)
        assert "fp32: golden" in failed(folder), changed


def doubling(depth, first):
    """A model whose functions each call the one before twice; the first one calls `first`."""
    bodies = [f"y = {first}(x)"] + [f"a = own.f{n}(x) y = own.f{n}(a)" for n in range(depth)]
    declared = '<domain: "own", opset_import: ["": 18, "own": 1]>'
    functions = (f"{declared} f{n}(x) => (y) {{ {body} }}" for n, body in enumerate(bodies))
    main = '<ir_version: 10, opset_import: ["": 18, "own": 1]> agraph (float[1] x) => (float[1] y)'
    return onnx.parser.parse_model("\n".join((f"{main} {{ y = own.f{depth}(x) }}", *functions)))


@pytest.mark.parametrize("depth", [3, 40, 2000])
@pytest.mark.parametrize("calls_itself", [False, True])
def test_functions_that_become_a_great_many_nodes(depth, calls_itself, tmp_path):
    model = doubling(depth, f"own.f{depth}" if calls_itself else "Identity")
    onnx.save(model, tmp_path / "model.onnx")
    found, _ = read_graph(tmp_path / "model.onnx", [])
    assert found.passed == (depth == 3 and not calls_itself)


ENTRY = zoo.info(folders.MODEL)
FILES = {"a.onnx": b"network", "a.onnx_data": b"tensors"}
VARIANT = folders.manifest(folders.contents())["variants"]["fp32"] | {"files": list(FILES)}
PIXELS = {"name": "pixel_values", "dtype": "float32", "shape": ["batch_size", 3, 32, 48]}


def audited(file, weights=None):
    """Checks by name: those of the files together, then those of the network."""
    report = audit_export(file, weights, CPU, LogProgress())
    (variant,) = report.variants
    findings = {each.check: each for each in (*report.findings, *variant.findings)}
    assert report.passed == all(each.passed for each in findings.values())
    return report, findings


def described(inputs=(PIXELS,), **changes):
    """The manifest of one file with a sidecar."""
    variant = VARIANT | {"inputs": list(inputs)}
    content = folders.manifest(FILES, variants={"fp32": variant}, **changes)
    return parse_manifest(json.dumps(content).encode(), "the manifest")


def shaped(*shape):
    return {"inputs": [PIXELS | {"shape": shape}]}


@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": []},
        shaped(),
        shaped(0, 3),
        {"size": [33, 48]},
        {"layers": [13]},
        {"outputs": ["logits"]},
    ],
    ids=str,
)
def test_what_the_model_cannot_do_is_no_signature(changes):
    with pytest.raises(BadFile, match="describes no export of dinov3_vits16"):
        read_manifest_signature(described(**changes), ENTRY)


def test_an_export_whose_files_are_others(tmp_path):
    folders.write(tmp_path, FILES)
    for name in "ab":
        (tmp_path / f"{name}.manifest.json").write_text(described().model_dump_json())
    with pytest.raises(BadFile, match="keep the names"):
        audit_export(tmp_path / "b.onnx", None, CPU, LogProgress())
    (tmp_path / "a.onnx_data").write_bytes(b"Tensors")
    _, findings = audited(tmp_path / "a.onnx")
    assert findings["files"].detail == "a.onnx_data has another sha256"
    assert not findings["files"].passed
    assert not findings["graph"].passed and "not read" in findings["graph"].detail


def test_a_network_of_the_users_own(tmp_path):
    """Its checkpoint is theirs to name; without, all but JAX is checked, and that is said."""
    digits = zoo.from_pretrained("vit_digits")
    model = jax.tree.map(lambda leaf: leaf * 1.01, digits)
    file, checkpoint = tmp_path / "mine.onnx", tmp_path / "mine.eqx"
    zoo.to_onnx(model, file, size=8)
    eqx.tree_serialise_leaves(checkpoint, model)
    report, findings = audited(file)
    assert report.passed and "user's own" in findings["JAX"].detail
    assert report.variants[0].verification is None
    report, _ = audited(file, str(checkpoint))
    compared = report.variants[0].verification
    assert report.passed and compared.measure == "max_rel"
    assert {each.output for each in compared.comparisons} >= {"pooler_output", "logits"}
    with pytest.raises(BadFile, match="other weights"):
        audited(file, "auto")
    # Nobody knows how a network was cut, so that the numbers cannot be compared again.
    cut = eqx.tree_at(lambda m: m.blocks, digits, digits.blocks[:3])
    zoo.to_onnx(cut, file, size=8, verify=False)
    eqx.tree_serialise_leaves(checkpoint, cut)
    report, findings = audited(file)
    assert report.passed and "not verified" in findings["JAX"].detail
    with pytest.raises(NotACheckpoint, match="not those of a model"):
        audited(file, str(checkpoint))


def test_weights_of_a_manifest():
    def read(option=None, **weights):
        return choose_weights(option, described(weights=weights), ENTRY, LogProgress())

    assert read(kind="random", seed=7) == SeededWeights(7)
    assert read("random", kind="random", seed=7) == SeededWeights(0)
    with pytest.raises(BadFile, match="names no checkpoint"):
        read(kind="own")
    with pytest.raises(WeightsNotFound, match=r"no nowhere\.pth in"):
        read(kind="meta", name="nowhere.pth", sha256="0" * 64)
