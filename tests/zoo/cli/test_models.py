"""`zoo list` and `zoo info`."""

import json

import pytest

import zoo as package
from zoo.registry.lookup import MODELS


def test_list(zoo):
    told = zoo("list", "*vitl*", "vit_digits").out
    assert "dinov3_vitl16_sat493m" in told
    assert "dinov3_vits16" not in told
    rows = {line.split()[0]: line for line in told.splitlines() if line}
    assert rows["vit_digits"].split() == [
        "vit_digits",
        "digits",
        "0.2",
        "M",
        "8",
        "apache-2.0",
        "this",
        "package",
    ]
    assert "303.2 M" in rows["dinov3_vitl16"]


def test_a_list_of_nothing_is_wrong_use(zoo):
    for command in ("list", "info", "export"):
        done = zoo(command, "dinov4", code=2)
        assert done.out == "" and done.err.count("\n") == 1
        assert done.err.startswith("error: ") and "did you mean dinov2" in done.err
    assert zoo("list", "resnet*", "--json", code=2).out == ""


def test_where_weights_come_from(zoo):
    found = {each["name"]: each["weights"] for each in json.loads(zoo("list", "--json").out)}
    assert found["vit_digits"]["from"] == "package"
    assert found["vit_digits"]["here"].endswith("zoo/data/vit_digits.safetensors")
    place = "facebook/dinov3-vitl16-pretrain-lvd1689m"
    assert found["dinov3_vitl16"] == {"from": "hub", "place": place, "here": None}
    # There is code for it, and a file for who accepts the licence, but no repository.
    assert found["dinov3_vitl16plus"]["from"] == "publisher"
    assert "poiretclement/equimo, which is not the publisher's" in zoo("info", "dinov3_vitl16").out
    assert found["vit5_small"]["from"] == "publisher"
    assert found["vit5_small"]["place"].startswith("https://")
    assert found["vit_huge_patch14_224"] == {"from": "nobody", "place": "", "here": None}
    told = zoo("list", "vit5_small", "vit_huge_patch14_224").out
    assert [
        line.rstrip().endswith(end)
        for line, end in zip(told.splitlines()[1:3], ("nobody", "by hand"), strict=True)
    ] == [True, True]


HUB = ".cache/huggingface/hub/models--google--siglip2-base-patch16-224/snapshots/abc"


@pytest.mark.parametrize(
    ("model", "place"),
    [
        ("dinov3_vits16", "here/dinov3_vits16_pretrain_lvd1689m-08c60483.pth"),
        (
            "dinov3_vits16",
            "home/.cache/torch/hub/dinov3/weights/dinov3_vits16_pretrain_lvd1689m-08c60483.pth",
        ),
        ("dinov3_vits16", "home/.cache/equimo/dinov3/dinov3_vits16_pretrain_lvd1689m.tar.lz4"),
        ("siglip2_vitb16_224", f"home/{HUB}/model.safetensors"),
    ],
)
def test_weights_that_are_here_already(model, place, zoo, tmp_path):
    """Empty files do, since nothing is read."""
    assert "this machine" not in zoo("list", model).out
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert "this machine" in zoo("list", model).out
    assert str(path) in zoo("info", model).out
    assert json.loads(zoo("info", model, "--json").out)["weights"]["here"] == str(path)


def test_json_has_all_that_the_registry_knows(zoo):
    found = json.loads(zoo("list", "--json").out)
    assert [each["name"] for each in found] == package.list_models()
    for each in found:
        entry = MODELS[each["name"]]
        assert set(vars(entry)) < set(each)
        assert each["parameters"] == entry.parameters
        assert each["config"] == json.loads(json.dumps(each["config"]))
        assert tuple(each["input_size"]) == entry.preprocessing.size
        assert each["licence"]["page"] == entry.licence.page
        assert each["namings"] == [naming.name for naming in entry.namings]
    alias = zoo("info", "dinov3_vits16_pretrain_lvd1689m", "--json").out
    assert json.loads(alias) == next(each for each in found if each["name"] == "dinov3_vits16")


def test_info(zoo):
    told = zoo("info", "dinov3_vits16_pretrain_lvd1689m").out
    assert "21,601,152" in told
    assert "did you mean" in zoo("info", "dinov3_vit", code=2).err


@pytest.mark.parametrize("name", MODELS)
def test_addresses_stay_whole(name, zoo, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    licence = MODELS[name].licence
    told = zoo("info", name).out
    assert licence.page in told
    assert licence.download in told
