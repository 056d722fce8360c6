"""What is said of named dimensions is used, recorded, obeyed by drawn sizes, and checked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

import converter
from converter.ir import named_sizes
from converter.verify.samples import samples


def halves(x):
    """Sums that need an even length, of at least four."""
    pairs = x.reshape(-1, 2).sum(1)
    return pairs + x[::2] + (1.0 if x.shape[0] >= 4 else 0.0), lax.top_k(x, 2)


def test_every_entry_takes_uses_and_obeys_them():
    x = np.arange(6, dtype=np.float32)
    given = {"specs": [("N",)], "constraints": ["N >= 4", "mod(N, 2) == 0"]}
    assert converter.explain(halves, **given).is_convertible
    assert not converter.explain(halves, [("N",)]).is_convertible
    assert converter.bisect(halves, [x], **given) is None
    with pytest.raises(converter.CheckError, match=r"do not obey the constraint 'N >= 4'"):
        converter.bisect(halves, [x[:2]], **given)
    made = converter.to_onnx(halves, **given)
    assert made.model.metadata_props["dimension_constraints"] == "N == 2*N_2; N >= 4"
    assert {arrays[0].size for _, arrays in samples(made.graph)} == {4, 6, 18}
    assert converter.check(made, halves).passed
    assert converter.check(made, halves, [x]).passed
    with pytest.raises(converter.CheckError, match=r"do not obey the constraint 'N >= 4'"):
        converter.check(made, halves, [x[:2]])


def test_a_scope_of_the_users_is_kept():
    scope = export.SymbolicScope(["h >= 2"])
    (h,) = export.symbolic_shape("h", scope=scope)
    spec = jax.ShapeDtypeStruct((h,), np.float32)

    def top(x, y):
        return lax.top_k(x, 2)[0] * y[-1]

    made = converter.to_onnx(top, [spec, ("w",)])
    assert made.graph.constraints == ("h >= 2",)
    assert converter.check(made, top).passed
    with pytest.raises(converter.SpecError, match="have a scope already"):
        converter.to_onnx(top, [spec], constraints=["h >= 3"])
    other = jax.ShapeDtypeStruct(export.symbolic_shape("w"), np.float32)
    with pytest.raises(converter.SpecError, match="of several scopes"):
        converter.to_onnx(top, [spec, other])


BAD = {
    "B > 2": "must contain one of",
    "(B >= 2": "write it as 'B >= 2'",
    "b >= 2": "uses the name 'b', which is in no input's shape",
    "2*B + 1 == 5": "Invalid equality",
}


def test_a_bad_one_is_one_sentence():
    for text, said in BAD.items():
        with pytest.raises(converter.SpecError, match=said) as raised:
            converter.to_onnx(jnp.sin, [("B",)], constraints=["B >= 1", text])
        assert repr(text) in str(raised.value)
        assert "\n" not in str(raised.value)
    with pytest.raises(converter.SpecError, match=r"for one write \['B >= 2'\]"):
        converter.to_onnx(jnp.sin, [("B",)], constraints="B >= 2")
    made = converter.to_onnx(jnp.sin, [("B",)], constraints=["B >= 5", "B <= 2"])
    with pytest.raises(converter.CheckError, match="no sizes"):
        converter.check(made, jnp.sin)


NEAREST = [
    ({"h": 3, "w": 4}, ["h == w"], {"h": 3, "w": 3}),
    ({"h": 3}, ["mod(h, 16) == 0"], {"h": 16}),
    ({"h": 1}, ["h >= 300"], {"h": 300}),
    ({"h": 9, "w": 9}, ["h <= 4", "w >= 2*h"], {"h": 4, "w": 9}),
    ({"k": 3}, ["h == 16*k", "h >= 40"], {"k": 3, "h": 48}),
    ({"h": 2}, ["h >= 5", "h <= 4"], None),
]


def test_the_nearest_sizes():
    for wanted, given, found in NEAREST:
        assert named_sizes.nearest_sizes(wanted, given) == found


BOUNDED = {
    "sum": jnp.add,
    "dot": jnp.dot,
    "pad to 8": lambda x, y: jnp.pad(x, (0, 8 - x.shape[0])),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_a_bound_and_an_equality(name):
    made = converter.to_onnx(BOUNDED[name], [("h",), ("w",)], constraints=["h == w", "w <= 8"])
    assert converter.check(made, BOUNDED[name]).passed


def test_an_equality_renames():
    made = converter.to_onnx(jnp.add, [("h",), ("w",)], constraints=["h == w"])
    first, second = made.model.graph.inputs
    assert str(first.shape) == str(second.shape)
