"""What is asked of an export, and files that appear whole or not at all."""

from dataclasses import replace
from pathlib import Path

import pytest

import zoo
from converter.targets import find_target
from zoo.common.errors import BadOutput, BadRequest
from zoo.common.staging import manifest_path, replace_export, sidecar_path, staged
from zoo.export.request import Options, check_scale_operator, choose_paths, plan_files

BAD = {
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


@pytest.mark.parametrize(("told", "options"), [(t, o) for t, all in BAD.items() for o in all])
def test_what_cannot_be(told, options, tmp_path):
    """It is told as Python's arguments, not as the command line's."""
    with pytest.raises(BadRequest, match=told) as error:
        ask(tmp_path, **options)
    assert "--" not in str(error.value)


def test_files():
    both = Path(), {18: "m-opset18.onnx", 23: "m-opset23.onnx"}
    assert choose_paths("m", (18, 23), Options()) == both
    named = {"m-opset23-int8": {"precision": "int8"}, "m-opset23-web": {"target": "web"}}
    named["m-opset23-web-fp16"] = {"target": "web", "precision": "fp16"}
    for name, options in named.items():
        for out, file in (("a", f"{name}.onnx"), ("a/b.onnx", "b.onnx")):
            found = choose_paths("m", (23,), Options(out=Path(out), **options))
            assert found == (Path("a"), {23: file})
    assert choose_paths("m", (23,), Options(out=Path(f"{'a' * 145}.onnx")))
    with pytest.raises(BadRequest, match="2 opsets"):
        choose_paths("m", (18, 23), Options(out=Path("a/b.onnx")))


@pytest.mark.parametrize("name", [".a", "-", "a b", "a\nb", "modèle", "a\\b", "\udcff", "a" * 146])
def test_names_that_no_manifest_can_hold(name):
    told = "a manifest cannot hold that name. Write one of at most 150"
    with pytest.raises(BadRequest, match=told) as caught:
        choose_paths("m", (23,), Options(out=Path("a folder") / f"{name}.onnx"))
    assert str(caught.value).isprintable()


def ask(tmp_path, **changes):
    options = {"opsets": [23, 18, 23], "weights": "random", "out": tmp_path, **changes}
    return plan_files(zoo.info("dinov3_vits16_pretrain_lvd1689m"), Options(**options))


@pytest.mark.parametrize("name", ["onnx", "manifest.json", "onnx_data"])
def test_earlier_exports_are_kept(name, tmp_path):
    (tmp_path / f"dinov3_vits16-opset18.{name}").touch()
    with pytest.raises(BadOutput, match="`force`"):
        ask(tmp_path)
    request = ask(tmp_path, force=True)
    # Each opset once, in the order of the request.
    assert [file.opset for file in request.files] == [23, 18]
    assert request.targets[0] == tmp_path / "dinov3_vits16-opset23.onnx"
    request.targets[0].mkdir()
    with pytest.raises(BadOutput, match="is a folder"):
        ask(tmp_path, force=True)


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


def test_a_target_says_what_it_takes(tmp_path):
    portable = {"target": "portable", "opsets": (), "batch": 1}
    assert [file.opset for file in ask(tmp_path, **portable).files] == [18]
    assert [file.opset for file in ask(tmp_path, target="tract", opsets=()).files] == [23]
    for changes, said in (
        ({"opsets": (23,)}, "opset 23 is not supported by target portable: choose 18"),
        ({"batch": None}, "takes fixed sizes alone: give batch 1"),
        ({"size": "dynamic", "batch": None}, "size 224 .* and batch 1"),
        ({"input": "uint8"}, "input float32"),
        ({"precision": "q4"}, "needs MatMulNBits, which target portable lacks"),
    ):
        with pytest.raises(BadRequest, match=said):
            ask(tmp_path, **{**portable, **changes})


def test_int8_with_scales_of_its_own_for_a_version_without_their_kernel():
    """ONNX Runtime 1.23 has no `QuantizeLinear` of opset 23; that of opset 22 it has."""
    options = Options(precision="int8", scales="row", target="onnxruntime==1.23.1")
    runtime = find_target(options.target)
    check_scale_operator(options, runtime, 22)
    check_scale_operator(replace(options, scales="tensor"), runtime, 23)
    with pytest.raises(BadRequest, match="have QuantizeLinear: ask for opset 22"):
        check_scale_operator(options, runtime, 23)
