"""A linear layer beside a network is its head; a layer of another form is none."""

import numpy as np
import pytest

import zoo
from tests.seeded import as_file, nano, state_of
from weights.found_head import find_head

ENTRY = zoo.info("dinov2_vits14")
NAMING = next(naming for naming in ENTRY.namings if naming.head)
CONFIG = nano(ENTRY.config_for(NAMING.name))
WIDTH = CONFIG.dim
STATE = state_of(CONFIG, NAMING, 1)


def find_beside_network(layers):
    """Return the head that is found beside the network. `layers` are shapes by name."""
    network = as_file(STATE)
    arrays = {name: np.full(shape, 0.5, np.float32) for name, shape in layers.items()}
    tensors = {f"net.{key}": tensor for key, tensor in network.items()} | as_file(arrays)
    return find_head(tensors, "net.", network, NAMING)


@pytest.mark.parametrize("width", [WIDTH, 2 * WIDTH])
@pytest.mark.parametrize("trailing", [(), (1, 1)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_linear_layers(width, trailing, has_bias):
    """The layer is a matrix or a 1 x 1 convolution, of the class token or of it and the mean. A
    missing bias is zero."""
    bias = {"top.bias": (5,)} if has_bias else {}
    head = find_beside_network({"top.weight": (5, width, *trailing)} | bias)
    assert (head.name, head.convolution, head.is_custom) == ("top", bool(trailing), True)
    weight, bias = (head.tensors[f"{NAMING.head}.{name}"].read() for name in ("weight", "bias"))
    np.testing.assert_array_equal(weight, np.full((5, width), 0.5))
    np.testing.assert_array_equal(bias, np.full(5, 0.5 if has_bias else 0))


OTHERS = {
    "another width": {"top.weight": (5, WIDTH + 1)},
    "a vector": {"top.weight": (WIDTH,)},
    "three axes": {"top.weight": (5, WIDTH, 1)},
    "a high kernel": {"top.weight": (5, WIDTH, 2, 1)},
    "a wide kernel": {"top.weight": (5, WIDTH, 1, 2)},
    "a bias of another size": {"top.weight": (5, WIDTH), "top.bias": (4,)},
    "a further tensor": {"top.weight": (5, WIDTH), "top.scale": (5,)},
    "two layers": {"top.weight": (5, WIDTH), "other.weight": (5, WIDTH)},
    "none": {},
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_layers(name):
    assert find_beside_network(OTHERS[name]) is None
