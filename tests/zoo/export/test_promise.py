"""Files that fail their verification are not published, by any command and in any precision."""

import json
from itertools import product

import jax
import pytest

import zoo
from tests.command import call_zoo
from tests.folders import listed
from zoo.architectures.builder import batched
from zoo.common.errors import NotVerified

PRECISIONS = ("fp32", "fp16", "bf16", "int8", "q4", "q4f16")
BY_DEFAULT = ("fp32", "fp16", "int8")
"""An exact precision, a lower one of floats, and one of integers."""

CASES = [
    pytest.param(*case, marks=() if case[0] in BY_DEFAULT else pytest.mark.full)
    for case in product(PRECISIONS, (18, 23), ("onnxruntime", "openvino"))
    if case[:2] != ("bf16", 18)  # opset 18 has no operators of bfloat16
]
VARIANTS = ("fp32", "fused", "fp16", "bf16", "int8", "q4", "q4f16")


@pytest.fixture
def wrong_jax(monkeypatch):
    """Negate the outputs in JAX, so that every verification fails."""

    def negated_outputs(*arguments, **options):
        return jax.tree.map(lambda value: -value, batched(*arguments, **options))

    monkeypatch.setattr("zoo.export.verify.batched", negated_outputs)


def read_verdicts(folder):
    """Return the `passed` of every variant in the manifests below a folder."""
    manifests = [json.loads(path.read_text()) for path in folder.rglob("*manifest.json")]
    return [
        variant["verification"]["passed"] for m in manifests for variant in m["variants"].values()
    ]


def by_command(path, keep, **options):
    """Export `vit_digits` by the command. Return whether the file was published."""
    option_words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = ["export", "vit_digits", *option_words, "--out", str(path), "--force"]
    code = call_zoo(*command, *["--keep-inexact"] * keep)
    assert code in (0, 1)
    return code == 0


def by_python(path, keep, **options):
    """Export `vit_digits` by `zoo.to_onnx`. Return whether the file was published."""
    try:
        zoo.to_onnx(zoo.from_pretrained("vit_digits"), path, keep_inexact=keep, **options)
    except NotVerified:
        return False
    return True


@pytest.mark.each("precision", "export_function")
@pytest.mark.parametrize("export_function", [by_command, by_python])
@pytest.mark.parametrize(("precision", "opset", "target"), CASES)
def test_unverified_exports_are_not_published(
    wrong_jax, export_function, precision, opset, target, tmp_path
):
    """The earlier file stays unless the new one is published."""
    path = tmp_path / "old.onnx"
    path.write_text("old")
    for keep in (False, True):
        is_published = keep and precision != "fp32"
        options = {"precision": precision, "opset": opset, "target": target}
        assert export_function(path, keep, **options) == is_published
        assert is_published or (listed(tmp_path) == {"old.onnx"} and path.read_text() == "old")
    assert read_verdicts(tmp_path) == ([False] if precision != "fp32" else [])


@pytest.mark.each()
@pytest.mark.parametrize("variant", VARIANTS)
def test_unverified_builds_are_not_published(wrong_jax, variant, tmp_path):
    command = ["build", "vit_digits", "--variant", variant, "--size", "8", "--out", str(tmp_path)]
    assert call_zoo(*command) == 1
    assert not [name for name in listed(tmp_path) if ".onnx" in name]
    kept = variant not in ("fp32", "fused")
    assert call_zoo(*command, "--keep-inexact") == (0 if kept else 1)
    assert bool([name for name in listed(tmp_path) if ".onnx" in name]) == kept
    assert read_verdicts(tmp_path) == [False] * kept
