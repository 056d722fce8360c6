"""`zoo list` and `zoo info`."""

import pytest

import zoo as package
from tests import folders
from zoo.registry.lookup import MODELS


def test_list(zoo):
    told = zoo("list", "*vitl*", "vit_digits", "vit5_small", "vit_huge_patch14_224").out
    assert "dinov3_vits16" not in told
    rows = {line.split()[0]: line for line in told.splitlines() if line}
    digits = "vit_digits digits 0.2 M 8 apache-2.0 this package"
    assert rows["vit_digits"].split() == digits.split()
    assert "303.2 M" in rows["dinov3_vitl16"] and "dinov3_vitl16_sat493m" in rows
    assert rows["vit5_small"].rstrip().endswith("by hand")
    assert rows["vit_huge_patch14_224"].rstrip().endswith("nobody")


def test_json_has_all_that_the_registry_knows(zoo):
    found = {each["name"]: each for each in zoo.json("list")}
    assert list(found) == package.list_models()
    for name, each in found.items():
        entry = MODELS[name]
        assert set(vars(entry)) < set(each)
        assert each["parameters"] == entry.parameters
        assert tuple(each["input_size"]) == entry.preprocessing.size
        assert each["licence"]["page"] == entry.licence.page
        assert each["namings"] == [naming.name for naming in entry.namings]
    assert zoo.json("info", "dinov3_vits16_pretrain_lvd1689m") == found["dinov3_vits16"]
    weights = {name: each["weights"] for name, each in found.items()}
    assert weights["vit_digits"]["from"] == "package"
    assert weights["vit_digits"]["here"].endswith("zoo/data/vit_digits.safetensors")
    place = "facebook/dinov3-vitl16-pretrain-lvd1689m"
    assert weights["dinov3_vitl16"] == {"from": "hub", "place": place, "here": None}
    # There is code for it, and a file for who accepts the licence, but no repository.
    assert weights["dinov3_vitl16plus"]["from"] == "publisher"
    assert weights["vit5_small"]["from"] == "publisher"
    assert weights["vit5_small"]["place"].startswith("https://")
    assert weights["vit_huge_patch14_224"] == {"from": "nobody", "place": "", "here": None}


CHECKPOINT = "dinov3_vits16_pretrain_lvd1689m-08c60483.pth"
HUB = ".cache/huggingface/hub/models--google--siglip2-base-patch16-224/snapshots/abc"


@pytest.mark.parametrize(
    ("model", "place"),
    [
        ("dinov3_vits16", f"here/{CHECKPOINT}"),
        ("dinov3_vits16", f"home/.cache/torch/hub/dinov3/weights/{CHECKPOINT}"),
        ("dinov3_vits16", "home/.cache/equimo/dinov3/dinov3_vits16_pretrain_lvd1689m.tar.lz4"),
        ("siglip2_vitb16_224", f"home/{HUB}/model.safetensors"),
    ],
)
def test_weights_that_are_here_already(model, place, zoo, tmp_path):
    """Empty files do, since nothing is read."""
    assert "this machine" not in zoo("list", model).out
    folders.write(tmp_path, {place: b""})
    path = tmp_path / place
    assert "this machine" in zoo("list", model).out
    assert str(path) in zoo("info", model).out
    assert zoo.json("info", model)["weights"]["here"] == str(path)


def test_info(zoo, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert "21,601,152" in zoo("info", "dinov3_vits16_pretrain_lvd1689m").out
    assert "poiretclement/equimo, which is not the publisher's" in zoo("info", "dinov3_vitl16").out
    # Addresses stay whole.
    for name, entry in MODELS.items():
        told = zoo("info", name).out
        assert entry.licence.page in told and entry.licence.download in told
