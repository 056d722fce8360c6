"""Values of options, selections of models, and the facts that `zoo list` and `zoo info` print."""

import shutil
from dataclasses import fields

import pytest

import zoo as package
from tests import folders
from zoo.architectures.entry import DATA
from zoo.cli.command_options import split_commas
from zoo.common.errors import BadRequest, UnknownModel
from zoo.common.options import read_sides, read_size
from zoo.export.export_options import parse_batch, parse_layers, parse_opsets
from zoo.registry.lookup import MODELS, find_models, select_models


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (split_commas, ["a,b", "c", "d, e", "f,"], ["a", "b", "c", "d", "e", "f", ""]),
        (read_size, "dynamic", "dynamic"),
        (read_size, "224", (224, 224)),
        (read_sides, "256x384", (256, 384)),
        (parse_batch, "dynamic", None),
        (parse_batch, "8", 8),
        (parse_layers, "12,3,6", (12, 3, 6)),
        (parse_layers, "last4", "last4"),
    ],
)
def test_parsed_values(read, text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(
    ("read", "texts", "message"),
    [
        (read_size, ("", "0", "-16", "224x", "224x0", "1e3", "٢٤", "x", "0x16"), "is no size"),
        (read_sides, ("dynamic", "224x0"), "is no size"),
        (parse_batch, ("0", "-1", "two", "", "1.5", "٢"), "is no batch size"),
        (parse_layers, ("", "last", "3,", "x", "-1", "٣"), "names no layers"),
        (lambda text: parse_opsets([text]), ("x", "", "-1", "18.0"), "`opset`"),
    ],
)
def test_wrong_values(read, texts, message):
    for text in texts:
        with pytest.raises(BadRequest, match=message):
            read(text)


def test_selections():
    """Patterns match names, aliases and families. A full name selects that model only."""
    for patterns, names in (
        (["*_sat493m"], ["dinov3_vitl16_sat493m", "dinov3_vit7b16_sat493m"]),
        (["dinov3_vits16_pretrain*"], ["dinov3_vits16"]),
        (["vit5_b*", "digits"], ["vit5_base", "vit_digits", "depth_digits", "boxes_digits"]),
    ):
        assert select_models([], False, patterns) == select_models([], True, patterns) == names
        assert sorted(select_models([*patterns, *patterns], False)) == sorted(names)
    names_in_order = ["vit_digits", "dinov3_vits16"]
    assert select_models(["FACEBOOK/dinov2-small"], False) == ["dinov2_vits14"]
    assert (
        select_models(
            [names_in_order[0], "dinov3_vits16_pretrain_lvd1689m", *names_in_order], False
        )
        == names_in_order
    )
    assert select_models([], True) == list(MODELS)
    assert select_models(["vit5", "*vitl16_sat493m"], False)[-1] == "dinov3_vitl16_sat493m"
    for arguments in ((["vit_digits"], True), (["vit_digits"], False, ["*"]), ([], False)):
        with pytest.raises(BadRequest, match="`all`"):
            select_models(*arguments)
    with pytest.raises(UnknownModel, match="did you mean dinov3_vits16"):
        find_models(["dinov3_vits61*"])


def test_json_of_models_has_all_fields(zoo):
    models = {model["name"]: model for model in zoo.json("list")}
    assert list(models) == package.list_models()
    for name, model in models.items():
        entry = MODELS[name]
        assert {field.name for field in fields(entry)} - {"publisher"} < set(model)
        assert model["parameters"] == entry.parameters
        assert tuple(model["input_size"]) == entry.preprocessing.size
        assert model["licence"]["page"] == entry.licence.page
        assert model["namings"] == [naming.name for naming in entry.namings]
    assert zoo.json("info", "dinov3_vits16_pretrain_lvd1689m") == models["dinov3_vits16"]
    weights = {name: model["weights"] for name, model in models.items()}
    assert weights["vit_digits"]["from"] == "package"
    assert weights["vit_digits"]["here"].endswith("zoo/data/vit_digits.safetensors")
    repository = "facebook/dinov3-vitl16-pretrain-lvd1689m"
    assert weights["dinov3_vitl16"] == {"from": "hub", "place": repository, "here": None}
    # There is code, and a file for those who accept the licence, but no repository.
    assert weights["dinov3_vitl16plus"]["from"] == weights["vit5_small"]["from"] == "publisher"
    assert weights["vit5_small"]["place"].startswith("https://")
    assert weights["vit_huge_patch14_224"] == {"from": "nobody", "place": "", "here": None}


def test_info_of_a_path(zoo, tmp_path):
    """The path is a built folder, a file with or without a manifest, or a checkpoint."""
    folder = folders.write(tmp_path / "built", folders.published(folders.contents()))
    digits = shutil.copy(DATA / "vit_digits.safetensors", tmp_path / "digits.safetensors")
    for path, name in ((folder, folders.MODEL), (digits, "vit_digits")):
        assert zoo.json("info", path)["name"] == name
    assert zoo.json("info", folder / "onnx" / "model.onnx")["name"] == folders.MODEL
    shutil.copy(folder / "onnx" / "model.onnx", tmp_path / "alone.onnx")
    refused = zoo("info", tmp_path / "alone.onnx", code=2)
    assert "alone.onnx has no manifest: put its .manifest.json" in refused.error


def test_info_prints_sizes_and_licences(zoo, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert "21,601,152" in zoo("info", "dinov3_vits16_pretrain_lvd1689m").out
    assert "poiretclement/equimo, which is not the publisher's" in zoo("info", "dinov3_vitl16").out
    # Addresses are not broken over lines.
    for entry in {entry.family: entry for entry in MODELS.values()}.values():
        printed = zoo("info", entry.name).out
        assert entry.licence.page in printed and entry.licence.download in printed
