"""Requests of exports: wrong options, paths of files, and publishing complete files."""

from dataclasses import replace
from pathlib import Path

import pytest

import zoo
from converter.targets import find_target
from zoo.common.errors import BadOutput, BadRequest
from zoo.common.staging import manifest_path, replace_export, sidecar_path, staged
from zoo.export.request import Options, check_scale_operator, choose_paths, plan_files

WRONG_OPTIONS = {
    "positive multiples of its patch size, 16": (
        *({"size": s} for s in ((0, 16), (-16, 16), (225, 224), (16.0, 16), (16,), (True, 16))),
    ),
    "is no batch size": tuple({"batch": batch} for batch in (0, -1, 1.5, "8", True)),
    "has layers 1 to 12": (
        *({"layers": n} for n in ((0,), (13,), (3, 13), (1.0,), (True,), "last13", "last0", "3")),
    ),
    "twice": ({"layers": (3, 6, 3)},),
    "choose from last_hidden_state, pooler_output, attentions, class_attention": (
        *({"outputs": [name]} for name in ("logits", "hidden_states", "attentions_3", "")),
    ),
    "hidden states": ({"reshape": True},),
    "17 to 26": tuple({"opsets": [opset]} for opset in (16, 27, 0, -1)),
    "leaves open to which size: give one such as 224": ({"size": "dynamic", "input": "uint8"},),
}
"""Words of an error, and options that raise it."""


@pytest.mark.parametrize(
    ("message", "options"), [(t, o) for t, all in WRONG_OPTIONS.items() for o in all]
)
def test_wrong_options(message, options, tmp_path):
    """Errors name arguments of Python, not options of the command line."""
    with pytest.raises(BadRequest, match=message) as error:
        plan_request(tmp_path, **options)
    assert "--" not in str(error.value)


def test_paths_of_files():
    expected = Path(), {18: "m-opset18.onnx", 23: "m-opset23.onnx"}
    assert choose_paths("m", (18, 23), Options()) == expected
    names_and_options = {
        "m-opset23-int8": {"precision": "int8"},
        "m-opset23-web": {"target": "web"},
    }
    names_and_options["m-opset23-web-fp16"] = {"target": "web", "precision": "fp16"}
    for name, options in names_and_options.items():
        for out, file in (("a", f"{name}.onnx"), ("a/b.onnx", "b.onnx")):
            paths = choose_paths("m", (23,), Options(out=Path(out), **options))
            assert paths == (Path("a"), {23: file})
    assert choose_paths("m", (23,), Options(out=Path(f"{'a' * 145}.onnx")))
    with pytest.raises(BadRequest, match="2 opsets"):
        choose_paths("m", (18, 23), Options(out=Path("a/b.onnx")))


@pytest.mark.parametrize("name", [".a", "-", "a b", "a\nb", "modèle", "a\\b", "\udcff", "a" * 146])
def test_names_that_no_manifest_can_hold(name):
    message = "a manifest cannot hold that name. Write one of at most 150"
    with pytest.raises(BadRequest, match=message) as error:
        choose_paths("m", (23,), Options(out=Path("a folder") / f"{name}.onnx"))
    assert str(error.value).isprintable()


def plan_request(tmp_path, **changes):
    """Plan an export at opsets 23, 18 and 23 with random weights, and with these changes."""
    options = {"opsets": [23, 18, 23], "weights": "random", "out": tmp_path, **changes}
    return plan_files(zoo.info("dinov3_vits16_pretrain_lvd1689m"), Options(**options))


@pytest.mark.parametrize("name", ["onnx", "manifest.json", "onnx_data"])
def test_earlier_exports_are_kept(name, tmp_path):
    (tmp_path / f"dinov3_vits16-opset18.{name}").touch()
    with pytest.raises(BadOutput, match="`force`"):
        plan_request(tmp_path)
    request = plan_request(tmp_path, force=True)
    # Each opset once, in the order of the request.
    assert [file.opset for file in request.files] == [23, 18]
    assert request.targets[0] == tmp_path / "dinov3_vits16-opset23.onnx"
    request.targets[0].mkdir()
    with pytest.raises(BadOutput, match="is a folder"):
        plan_request(tmp_path, force=True)


def test_publishing_replaces_all_and_leaves_nothing_stale(tmp_path):
    target = tmp_path / "a.onnx"
    sidecar_path(target).write_text("old")
    target.write_text("old")
    with staged(tmp_path) as stage:
        (stage / "a.onnx").write_text("new")
        (stage / "a.manifest.json").write_text("new")
        replace_export(stage, target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.manifest.json", "a.onnx"]
    assert target.read_text() == manifest_path(target).read_text() == "new"


def test_limits_of_targets(tmp_path):
    portable = {"target": "portable", "opsets": (), "batch": 1}
    assert [file.opset for file in plan_request(tmp_path, **portable).files] == [18]
    assert [file.opset for file in plan_request(tmp_path, target="tract", opsets=()).files] == [23]
    for changes, message in (
        ({"opsets": (23,)}, "opset 23 is not supported by target portable: choose 18"),
        ({"batch": None}, "takes fixed sizes alone: give batch 1"),
        ({"size": "dynamic", "batch": None}, "size 224 .* and batch 1"),
        ({"input": "uint8"}, "input float32"),
        ({"precision": "q4"}, "needs MatMulNBits, which target portable lacks"),
    ):
        with pytest.raises(BadRequest, match=message):
            plan_request(tmp_path, **{**portable, **changes})


def test_scales_by_row_need_a_kernel_of_the_target():
    """ONNX Runtime 1.23 has `QuantizeLinear` of opset 22, but not of opset 23."""
    options = Options(precision="int8", scales="row", target="onnxruntime==1.23.1")
    target = find_target(options.target)
    check_scale_operator(options, target, 22)
    check_scale_operator(replace(options, scales="tensor"), target, 23)
    with pytest.raises(BadRequest, match="have QuantizeLinear: ask for opset 22"):
        check_scale_operator(options, target, 23)
