"""Lists as text, and which models a command is about."""

from itertools import pairwise

import pytest

from zoo.cli.options import join_opsets, read_opsets, split
from zoo.errors import BadRequest, UnknownModel
from zoo.registry.lookup import MODELS, fitting, select


def test_commas():
    assert split(["a,b", "c", "d, e"]) == ["a", "b", "c", "d", "e"]
    assert split(None) == []
    assert split(["a,"]) == ["a", ""]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["m", "--opset", "18", "23", "24"], [18, 23, 24]),
        (["m", "--opset", "18", "--opset", "23"], [18, 23]),
        (["m", "--opset", "18,23", "24"], [18, 23, 24]),
        (["m", "--opset=18", "23"], [18, 23]),
        (["m", "--opset=18,23"], [18, 23]),
        (["--opset", "18", "m", "--size", "224"], [18]),
        (["--size", "224", "23", "--opset", "18"], [18]),
    ],
)
def test_opset_takes_any_number_of_values(given, read):
    joined = join_opsets(given)
    texts = [b for a, b in pairwise(joined) if a == "--opset"]
    texts += [a.removeprefix("--opset=") for a in joined if a.startswith("--opset=")]
    assert read_opsets(split(texts)) == read
    words = {"m", "--size", "224"}
    assert [a for a in joined if a in words] == [a for a in given if a in words]


@pytest.mark.parametrize("text", ["x", "", "-1", "18.0"])
def test_an_opset_is_a_number(text):
    with pytest.raises(BadRequest, match="--opset"):
        read_opsets([text])


def test_selections():
    assert select(["vit_digits", "dinov3_vits16_pretrain_lvd1689m", "vit_digits"], False) == [
        "vit_digits",
        "dinov3_vits16",
    ]
    assert select([], True) == list(MODELS)
    assert select([], False, ["*_digits", "vit5_b*"]) == ["vit5_base", "vit_digits"]
    assert select([], True, ["vit5_b*"]) == ["vit5_base"]
    for arguments in ((["vit_digits"], True), (["vit_digits"], False, ["*"]), ([], False)):
        with pytest.raises(BadRequest, match="--all"):
            select(*arguments)


def test_patterns_fit_aliases_and_families():
    assert [model.name for model in fitting(["*_sat493m"])] == [
        "dinov3_vitl16_sat493m",
        "dinov3_vit7b16_sat493m",
    ]
    assert [model.name for model in fitting(["dinov3_vits16_pretrain*"])] == ["dinov3_vits16"]
    assert {model.family for model in fitting(["vit5", "digits"])} == {"vit5", "digits"}
    with pytest.raises(UnknownModel, match="did you mean dinov3_vits16"):
        fitting(["dinov3_vits61*"])


def test_commands_take_what_the_list_takes():
    """A whole name is that model alone, though others begin with it."""
    assert select(["dinov3_vits16"], False) == ["dinov3_vits16"]
    for name in ("vit5", "*_sat493m", "dinov3_vits16_pretrain*", "FACEBOOK/dinov2-small"):
        found = select([name, name], False)
        assert found == ([model.name for model in fitting([name])] if name.islower() else found)
    assert select(["vit5", "*vitl16_sat493m"], False)[-1] == "dinov3_vitl16_sat493m"
    with pytest.raises(UnknownModel, match="there is no model called 'dinov4'"):
        select(["dinov4"], False)
