"""Values of options, as people write them."""

import pytest

from zoo.cli.values import read_batch, read_layers, read_sides, read_size
from zoo.errors import BadRequest


def test_size():
    assert (read_size(None), read_size("dynamic")) == (None, "dynamic")
    for read in (read_size, read_sides):
        assert (read("224"), read("256x384")) == ((224, 224), (256, 384))
    assert read_sides(None) is None


@pytest.mark.parametrize("text", ["", "0", "-16", "224x", "224x0", "1e3", "٢٤", "x", "0x16"])
def test_bad_size(text):
    for read in (read_size, read_sides):
        with pytest.raises(BadRequest, match=f"--size {text} is no size"):
            read(text)
    with pytest.raises(BadRequest, match="--size dynamic is no size"):
        read_sides("dynamic")


def test_batch():
    assert (read_batch("dynamic"), read_batch("8")) == (None, 8)
    for text in ("0", "-1", "two", "", "1.5", "٢"):
        with pytest.raises(BadRequest, match=f"--batch {text} is no batch size"):
            read_batch(text)


def test_layers():
    assert (read_layers(None), read_layers("12,3,6"), read_layers("last4")) == (
        (),
        (12, 3, 6),
        "last4",
    )
    for text in ("", "last", "3,", "x", "-1", "٣"):
        with pytest.raises(BadRequest, match=f"--layers {text} names no layers"):
            read_layers(text)
