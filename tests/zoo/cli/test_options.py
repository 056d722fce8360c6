"""Values of options, as people write them, and which models a command is about."""

from itertools import pairwise

import pytest

from zoo.cli.options import join_opsets, parse_opsets, split_commas
from zoo.cli.values import read_batch, read_layers, read_sides, read_size
from zoo.errors import BadRequest, UnknownModel
from zoo.registry.lookup import MODELS, fitting, select


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (split_commas, ["a,b", "c", "d, e", "f,"], ["a", "b", "c", "d", "e", "f", ""]),
        (split_commas, None, []),
        (read_size, None, None),
        (read_size, "dynamic", "dynamic"),
        (read_size, "224", (224, 224)),
        (read_sides, "256x384", (256, 384)),
        (read_sides, None, None),
        (read_batch, "dynamic", None),
        (read_batch, "8", 8),
        (read_layers, None, ()),
        (read_layers, "12,3,6", (12, 3, 6)),
        (read_layers, "last4", "last4"),
    ],
)
def test_values(read, text, value):
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "texts", "told"),
    [
        (read_size, ("", "0", "-16", "224x", "224x0", "1e3", "٢٤", "x", "0x16"), "is no size"),
        (read_sides, ("dynamic", "224x0"), "is no size"),
        (read_batch, ("0", "-1", "two", "", "1.5", "٢"), "is no batch size"),
        (read_layers, ("", "last", "3,", "x", "-1", "٣"), "names no layers"),
        (lambda text: parse_opsets([text]), ("x", "", "-1", "18.0"), "--opset"),
    ],
)
def test_bad_values(read, texts, told):
    for text in texts:
        with pytest.raises(BadRequest, match=told):
            read(text)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["m", "--opset", "18", "23", "24"], [18, 23, 24]),
        (["m", "--opset", "18", "--opset", "23"], [18, 23]),
        (["m", "--opset=18,23", "24"], [18, 23, 24]),
        (["--opset", "18", "m", "--size", "224"], [18]),
        (["--size", "224", "23", "--opset", "18"], [18]),
    ],
)
def test_opset_takes_any_number_of_values(given, read):
    joined = join_opsets(given)
    texts = [b for a, b in pairwise(joined) if a == "--opset"]
    texts += [a.removeprefix("--opset=") for a in joined if a.startswith("--opset=")]
    assert parse_opsets(split_commas(texts)) == read
    words = {"m", "--size", "224"}
    assert [a for a in joined if a in words] == [a for a in given if a in words]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["*_sat493m"], ["dinov3_vitl16_sat493m", "dinov3_vit7b16_sat493m"]),
        (["dinov3_vits16_pretrain*"], ["dinov3_vits16"]),
        (["vit5_b*", "digits"], ["vit5_base", "vit_digits"]),
    ],
)
def test_patterns_fit_names_aliases_and_families(patterns, names):
    """For commands as for the list."""
    assert [model.name for model in fitting(patterns)] == names
    assert select([], False, patterns) == select([], True, patterns) == names
    assert sorted(select([*patterns, *patterns], False)) == sorted(names)


def test_selections():
    """A whole name is that model alone, though others begin with it."""
    assert select(["dinov3_vits16"], False) == ["dinov3_vits16"]
    assert select(["FACEBOOK/dinov2-small"], False) == ["dinov2_vits14"]
    assert select(["vit_digits", "dinov3_vits16_pretrain_lvd1689m", "vit_digits"], False) == [
        "vit_digits",
        "dinov3_vits16",
    ]
    assert select([], True) == list(MODELS)
    assert select(["vit5", "*vitl16_sat493m"], False)[-1] == "dinov3_vitl16_sat493m"
    for arguments in ((["vit_digits"], True), (["vit_digits"], False, ["*"]), ([], False)):
        with pytest.raises(BadRequest, match="--all"):
            select(*arguments)
    with pytest.raises(UnknownModel, match="did you mean dinov3_vits16"):
        fitting(["dinov3_vits61*"])
