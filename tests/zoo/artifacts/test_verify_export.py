"""What `zoo verify FILE` takes from a manifest, and what it refuses."""

import json

import equinox as eqx
import jax
import pytest

import zoo
from tests import folders
from weights.errors import NotACheckpoint, WeightsNotFound
from zoo.artifacts.audit.checks import audit_export
from zoo.artifacts.audit.jax import read_choice, stated_signature
from zoo.checkpoints.weights_argument import Seed
from zoo.errors import BadFile
from zoo.manifest.read import parse
from zoo.progress import Lines
from zoo.runtime import CPU

ENTRY = zoo.info(folders.MODEL)
FILES = {"a.onnx": b"network", "a.onnx_data": b"tensors"}
VARIANT = folders.manifest(folders.contents())["variants"]["fp32"] | {"files": list(FILES)}
PIXELS = {"name": "pixel_values", "dtype": "float32", "shape": ["batch_size", 3, 32, 48]}


def audit(file, weights=None):
    """Checks by name: those of the files together, then those of the network."""
    report = audit_export(file, weights, CPU, Lines())
    (variant,) = report.variants
    findings = {each.check: each for each in (*report.findings, *variant.findings)}
    assert report.passed == all(each.passed for each in findings.values())
    return report, findings


def described(inputs=(PIXELS,), **changes):
    """The manifest of one file with a sidecar."""
    variant = VARIANT | {"inputs": list(inputs)}
    content = folders.manifest(FILES, variants={"fp32": variant}, **changes)
    return parse(json.dumps(content).encode(), "the manifest")


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
        stated_signature(described(**changes), ENTRY)


def test_files(tmp_path):
    folders.write(tmp_path, FILES)
    for name in "ab":
        (tmp_path / f"{name}.manifest.json").write_text(described().model_dump_json())
    with pytest.raises(BadFile, match="keep the names"):
        audit_export(tmp_path / "b.onnx", None, CPU, Lines())
    (tmp_path / "a.onnx_data").write_bytes(b"Tensors")
    _, findings = audit(tmp_path / "a.onnx")
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
    report, findings = audit(file)
    assert report.passed and "user's own" in findings["JAX"].detail
    assert report.variants[0].verification is None
    report, _ = audit(file, str(checkpoint))
    compared = report.variants[0].verification
    assert report.passed and compared.measure == "max_rel"
    assert {each.output for each in compared.comparisons} >= {"pooler_output", "logits"}
    with pytest.raises(BadFile, match="other weights"):
        audit(file, "auto")
    # Nobody knows how a network was cut, so that the numbers cannot be compared again.
    cut = eqx.tree_at(lambda m: m.blocks, digits, digits.blocks[:3])
    zoo.to_onnx(cut, file, size=8, verify=False)
    eqx.tree_serialise_leaves(checkpoint, cut)
    report, findings = audit(file)
    assert report.passed and "not verified" in findings["JAX"].detail
    with pytest.raises(NotACheckpoint, match="not those of a model"):
        audit(file, str(checkpoint))


def test_weights():
    def read(option=None, **weights):
        return read_choice(option, described(weights=weights), ENTRY, Lines())

    assert read(kind="random", seed=7) == Seed(7)
    assert read("random", kind="random", seed=7) == Seed(0)
    with pytest.raises(BadFile, match="names no checkpoint"):
        read(kind="own")
    with pytest.raises(WeightsNotFound, match=r"no nowhere\.pth in"):
        read(kind="meta", name="nowhere.pth", sha256="0" * 64)
