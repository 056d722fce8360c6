"""`zoo verify` on built folders: what is right passes, and no damage goes unnoticed."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file

from tests import folders
from zoo.artifacts.audit.audit import audit_folder, audit_one
from zoo.artifacts.build.folder import build
from zoo.cli.build import read_plans
from zoo.cli.console import print_json
from zoo.cli.export import export_one
from zoo.cli.verify import record, verify
from zoo.errors import ZooError
from zoo.export.request import Options
from zoo.manifest.read import read_folder
from zoo.progress import Lines
from zoo.runtime import CPU

ZOO = [sys.executable, "-c", "from zoo.cli import main; main()"]
MODEL = "onnx/model.onnx"


def call(*arguments, code=0):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*ZOO, *map(str, arguments)], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """vit_digits in all precisions."""
    place = tmp_path_factory.mktemp("built")
    variants = ("fp32", "fused", "int8", "bf16")
    options = Options(out=place, size=(8, 8), offline=True)
    (plan,) = read_plans(["vit_digits"], options, variants)
    build(plan, Lines())
    return plan.folder


@pytest.fixture
def folder(built, tmp_path):
    return shutil.copytree(built, tmp_path / "vit_digits")


def audit(folder, provider=CPU):
    return audit_folder(folder, provider, Lines())


def listed(folder, **changes):
    """Rewrite a manifest so that it describes the files as they are now."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    for item in content["files"]:
        data = (folder / item["name"]).read_bytes()
        item |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    path.write_text(json.dumps(content | changes))


def failures(report):
    """One line a failed check."""
    files = ((each.name, each.findings) for each in report.variants)
    return [
        f"{place}: {finding.check}: {finding.detail}"
        for place, findings in (("folder", report.findings), *files)
        for finding in findings
        if not finding.passed
    ]


def failed(report):
    return {line.split(": ")[0] + ": " + line.split(": ")[1] for line in failures(report)}


def test_a_sound_folder(built):
    report = json.loads(call("verify", built, "--json").stdout)
    assert report["passed"]
    assert report["absent"] == []
    assert [v["name"] for v in report["variants"]] == ["fp32", "fused", "bf16", "int8"]
    checks = ["graph", "checker", "fused", "loads", "signature", "fallback", "golden"]
    for variant in report["variants"]:
        assert [finding["check"] for finding in variant["findings"]] == checks
        assert variant["elsewhere"] == {}
        outputs = [c["output"] for c in variant["verification"]["comparisons"]]
        assert outputs == ["last_hidden_state", "pooler_output", "logits"]
    worst = [
        max(c["max_abs"] for c in v["verification"]["comparisons"]) for v in report["variants"]
    ]
    assert worst[0] < 1e-4 < worst[3]


def test_one_file_of_a_folder(built, capsys):
    assert verify(built / "onnx/model_fused.onnx") == 0
    told = capsys.readouterr().out
    assert "passed" in told
    assert "4 Attention" in told
    assert "fp32" not in told


def test_a_pulled_folder_has_some_variants(folder):
    for name in ("model_fused", "model_bf16"):
        (folder / f"onnx/{name}.onnx").unlink()
    report = audit(folder)
    assert report.passed
    assert report.absent == ["fused", "bf16"]
    for path in (folder / "onnx").iterdir():
        path.unlink()
    assert failed(audit(folder)) == {"folder: variants"}


def test_nodes_that_fall_back(built):
    """This provider computes only operators of its own, so everything falls back."""
    report = audit_one(built / MODEL, "AzureExecutionProvider", Lines())
    nodes = len(onnx.load(built / MODEL).graph.node)
    (file,) = report.variants
    assert report.passed
    # Constants are folded, and functions opened up, before nodes are given to providers.
    assert 0.8 * nodes < sum(file.elsewhere[CPU].values()) < 1.5 * nodes
    assert file.elsewhere[CPU]["LayerNormalization"] == 9


def test_an_exported_file(tmp_path, capsys):
    """Against JAX as before, in the precision that its manifest says, and its graph as well."""
    file = tmp_path / "vit.onnx"
    options = Options(size=(8, 16), precision="fp16", verify=False, out=file, offline=True)
    assert export_one("vit_digits", options, json=True) == 0
    capsys.readouterr()
    content = json.loads(file.with_suffix(".manifest.json").read_text())
    assert content["variants"]["fp16"]["fused"].pop("Attention") == 4
    file.with_suffix(".manifest.json").write_text(json.dumps(content))
    assert verify(file, None, "AzureExecutionProvider", json=True) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["findings"][0]["passed"] and not report["passed"]
    (found,) = report["variants"]
    compared = found["verification"]
    assert (found["passed"], compared["passed"], compared["measure"]) == (False, True, "cosine")
    checks = {finding["check"]: finding["passed"] for finding in found["findings"]}
    names = ("graph", "checker", "loads", "signature", "fallback", "JAX")
    assert checks == dict.fromkeys(names, True) | {"fused": False}
    assert all(c["cosine"] > 0.9999 for c in compared["comparisons"])
    assert found["elsewhere"][CPU]["Attention"] == 4
    assert {(c["height"], c["width"]) for c in compared["comparisons"]} == {(8, 16)}


def test_a_provider_that_is_not_there(built):
    told = call("verify", built, "--provider", "NoExecutionProvider", code=2).stderr
    assert "not installed" in told
    assert told.count("\n") == 1


def test_changed_weights_are_told_by_digest_and_by_numbers(folder):
    path = folder / MODEL
    model = onnx.load(path)
    weight = next(t for t in model.graph.initializer if t.dims == [64, 192])
    values = onnx.numpy_helper.to_array(weight) * np.float32(1.02)
    weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    onnx.save(model, path)
    assert failed(audit(folder)) == {"folder: files", "fp32: golden"}
    listed(folder)
    assert failed(audit(folder)) == {"fp32: golden"}


def test_another_graph(folder, capsys):
    """Decomposed where it should be fused; other names; and all of it is told at once."""
    shutil.copy(folder / MODEL, folder / "onnx/model_fused.onnx")
    model = onnx.load(folder / MODEL)
    model.graph.input[0].name = "images"
    for node in model.graph.node:
        node.input[:] = ["images" if name == "pixel_values" else name for name in node.input]
    onnx.save(model, folder / MODEL)
    listed(folder, complete=False)
    wanted = {"folder: manifest", "fused: fused", "fp32: signature", "fp32: golden"}
    assert failed(audit(folder)) == wanted
    capsys.readouterr()
    assert verify(folder) == 1
    told = capsys.readouterr().out
    assert told.count("FAILED") == len(wanted) + 1


def test_files_that_do_not_belong(folder):
    (folder / ".cache").mkdir()
    (folder / ".cache/anything").touch()
    assert audit(folder).passed
    (folder / "onnx/extra.onnx").touch()
    (folder / "note\n.txt").touch()
    (folder / "LICENSE").rename(folder / ".licence")
    (folder / "LICENSE").symlink_to(".licence")
    os.mkfifo(folder / "pipe")
    lines = "\n".join(failures(audit(folder)))
    for words in ("onnx/extra.onnx is not", "'note\\n.txt' is", "LICENSE is a sym", "pipe is not"):
        assert words in lines
    assert "LICENSE is reached through a symbolic link" in lines


def test_tensors_may_not_lie_elsewhere(folder):
    (folder / "onnx/model.onnx_data").write_bytes(b"\0" * 1024)
    model = onnx.load(folder / MODEL)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../golden.safetensors")
    (folder / MODEL).write_bytes(model.SerializeToString())
    assert "fp32: graph" in failed(audit(folder))


def test_tensors_in_a_sidecar(folder):
    model, sidecar = onnx.load(folder / MODEL), folder / "onnx/model.onnx_data"
    onnx.save(model, folder / MODEL, save_as_external_data=True, location=sidecar.name)
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    content["files"].append({"name": "onnx/model.onnx_data", "bytes": 0, "sha256": "0" * 64})
    content["variants"]["fp32"]["files"].insert(0, "onnx/model.onnx_data")
    path.write_text(json.dumps(content))
    listed(folder)
    assert audit(folder).passed
    assert audit_one(folder / MODEL, CPU, Lines()).passed
    sidecar.write_bytes(sidecar.read_bytes()[:-5000])
    assert {"folder: files", "fp32: loads"} <= failed(audit(folder))
    sidecar.unlink()
    assert {"folder: files", "fp32: loads"} <= failed(audit(folder))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data[::-1],
        lambda data: b"\xff" * 64 + data,
    ],
    ids=["truncated", "empty", "reversed", "prefixed"],
)
@pytest.mark.parametrize("name", ["golden.safetensors", MODEL, "manifest.json"])
def test_damaged_files(folder, name, damage):
    path = folder / name
    path.write_bytes(damage(path.read_bytes()))
    if name == "manifest.json":
        with pytest.raises(ZooError, match="manifest"):
            audit(folder)
        return
    report = audit(folder)
    assert "folder: files" in failed(report)
    assert failed(report) & {"folder: golden numbers", "fp32: graph", "fp32: loads"}
    print_json(record(report))


@pytest.mark.parametrize("name", ["golden.safetensors", MODEL])
def test_flipped_bytes(folder, name):
    """Anywhere in the part that says what the rest is; never more than a failure."""
    path = folder / name
    sound = path.read_bytes()
    spots = np.random.default_rng(0).integers(0, 400, 25)
    # The names of nodes and operators lie before or after the weights.
    where = sound.find(b"LayerNormalization") if name == MODEL else 0
    for spot in spots:
        data = bytearray(sound)
        data[where + spot] ^= 1 << (spot % 8)
        path.write_bytes(data)
        report = audit_one(folder / MODEL, CPU, Lines())
        assert "folder: files" in failed(report)


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
        assert "fp32: golden" in failed(audit(folder)), changed


SOUND = folders.manifest(folders.contents())
HOSTILE = ("../x", "/etc/passwd", "a//b", "a/../b", "", ".x", "a\\b", "a\n", "a\0b", "C:x", "ä")


@pytest.mark.parametrize(
    "content",
    [
        [],
        None,
        "text",
        {},
        {"format": "jax-onnx-zoo folder", "format_version": 1},
        SOUND | {"format_version": 1},
        SOUND | {"format_version": 3},
        SOUND | {"format_version": "1\n"},
        SOUND | {"model": 3},
        SOUND | {"complete": "yes"},
        SOUND | {"files": {}},
        SOUND | {"files": [None]},
        SOUND | {"variants": []},
        SOUND | {"variants": {"fp32": 1}},
        SOUND | {"variants": {"../fp32": {}}},
        SOUND | {"files": [{"name": "manifest.json", "bytes": 1, "sha256": "0" * 64}]},
        SOUND | {"files": [{"name": "a", "bytes": "1", "sha256": "0" * 64}]},
        SOUND | {"files": [{"name": "a", "bytes": 1, "sha256": "0"}]},
        *(SOUND | {"files": [{"name": n, "bytes": 1, "sha256": "0" * 64}]} for n in HOSTILE),
    ],
)
def test_manifests_that_make_no_sense(content, tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps(SOUND))
    assert read_folder(tmp_path).complete
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(ZooError, match="manifest") as caught:
        read_folder(tmp_path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", [None, 3, "x", [], {}, [3], [{}], {"a": "b"}])
@pytest.mark.parametrize("key", ["files", "precision", "inputs", "outputs", "fused"])
def test_variants_that_make_no_sense(built, tmp_path, key, value):
    content = json.loads((built / "manifest.json").read_text())
    content["variants"]["fp32"][key] = value
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    if (key, value) in (("inputs", []), ("outputs", []), ("fused", {})):
        assert read_folder(tmp_path)
        return
    with pytest.raises(ZooError, match="manifest"):
        read_folder(tmp_path)


def test_deep_and_binary_manifests(tmp_path):
    for data in (b"[" * 100_000, b"\x80\x81", b'{"a": ' + b"9" * 5000 + b"}"):
        (tmp_path / "manifest.json").write_bytes(data)
        with pytest.raises(ZooError, match="manifest"):
            read_folder(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "does not exist"),
        (["{empty}"], "has no manifest.json"),
        (["{empty}/alone.onnx"], "is missing"),
        (["{built}/README.md"], "is missing"),
        (["{built}", "random"], "--weights"),
    ],
)
def test_wrong_use(built, tmp_path, arguments, words):
    (tmp_path / "alone.onnx").touch()
    target, *weights = (text.format(built=built, empty=tmp_path) for text in arguments)
    with pytest.raises(ZooError, match=words) as caught:
        verify(Path(target), *weights)
    assert str(caught.value).isprintable()
