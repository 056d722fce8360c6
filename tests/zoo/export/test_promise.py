"""What is not verified is at no path, whoever asked for it and as what."""

import json
from itertools import product

import jax
import pytest

import zoo
from tests.folders import listed
from zoo.architectures.builder import batched
from zoo.cli.app import app
from zoo.cli.console import run_command
from zoo.common.errors import NotVerified

PRECISIONS = ("fp32", "fp16", "bf16", "int8", "q4", "q4f16")
BY_DEFAULT = ("fp32", "fp16", "int8")
"""An exact precision, a lower one of floats, and one of integers."""

CASES = [
    pytest.param(*case, marks=() if case[0] in BY_DEFAULT else pytest.mark.full)
    for case in product(PRECISIONS, (18, 23), ("onnxruntime", "openvino"))
    if case[:2] != ("bf16", 18)  # which has no operators for it
]
VARIANTS = ("fp32", "fused", "fp16", "bf16", "int8", "q4", "q4f16")


@pytest.fixture
def elsewhere(monkeypatch):
    """JAX says something else than the network that was converted."""

    def other(*arguments, **options):
        return jax.tree.map(lambda value: -value, batched(*arguments, **options))

    monkeypatch.setattr("zoo.export.verify.batched", other)


def verdicts(folder):
    """What manifests say of the files that they are about."""
    found = [json.loads(path.read_text()) for path in folder.rglob("*manifest.json")]
    return [each["verification"]["passed"] for m in found for each in m["variants"].values()]


def by_command(path, keep, **options):
    """Whether it stays."""
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = ["export", "vit_digits", *words, "--out", str(path), "--force"]
    code = run_command(app, [*command, *["--keep-inexact"] * keep])
    assert code in (0, 1)
    return code == 0


def by_python(path, keep, **options):
    try:
        zoo.to_onnx(zoo.from_pretrained("vit_digits"), path, keep_inexact=keep, **options)
    except NotVerified:
        return False
    return True


@pytest.mark.each("precision", "entry")
@pytest.mark.parametrize("entry", [by_command, by_python])
@pytest.mark.parametrize(("precision", "opset", "target"), CASES)
def test_exports(elsewhere, entry, precision, opset, target, tmp_path):
    """What was there stays."""
    old = tmp_path / "old.onnx"
    old.write_text("old")
    for keep in (False, True):
        stays = keep and precision != "fp32"
        asked = {"precision": precision, "opset": opset, "target": target}
        assert entry(old, keep, **asked) == stays
        assert stays or (listed(tmp_path) == {"old.onnx"} and old.read_text() == "old")
    assert verdicts(tmp_path) == ([False] if precision != "fp32" else [])


@pytest.mark.each()
@pytest.mark.parametrize("variant", VARIANTS)
def test_builds(elsewhere, variant, tmp_path):
    command = ["build", "vit_digits", "--variant", variant, "--size", "8", "--out", str(tmp_path)]
    assert run_command(app, command) == 1
    assert not [name for name in listed(tmp_path) if ".onnx" in name]
    kept = variant not in ("fp32", "fused")
    assert run_command(app, [*command, "--keep-inexact"]) == (0 if kept else 1)
    assert bool([name for name in listed(tmp_path) if ".onnx" in name]) == kept
    assert verdicts(tmp_path) == [False] * kept
