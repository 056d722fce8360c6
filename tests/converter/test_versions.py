"""Files for older versions of ONNX Runtime: the opset, and kernels that came later.

The full tier runs them in those versions (`tests/onnxruntimes/`); here they are right in the one
that is installed, and hold nothing that the older one has not.
"""

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest

import converter
from converter.opsets import OLDEST_RUNTIME, is_older, warning_if_too_old
from converter.targets import find_target
from converter.targets.casts import inferred_dtypes
from converter.targets.onnxruntime.lags import LAGS, replace_cosines
from converter.targets.versions import versions

NARROW = ("int8", "int16", "uint8", "uint16", "uint32", "uint64")
ENDS = {
    name: np.array([np.iinfo(name).min, np.iinfo(name).max, 1, 2, 77], name)
    for name in (*NARROW, "int32")
}
BINARY = {
    "Add": jax.lax.add,
    "Sub": jax.lax.sub,
    "Mul": jax.lax.mul,
    "Equal": jax.lax.eq,
    "Less": jax.lax.lt,
    "LessOrEqual": jax.lax.le,
    "Greater": jax.lax.gt,
    "GreaterOrEqual": jax.lax.ge,
    "Max": jax.lax.max,
    "Min": jax.lax.min,
    "Where": lambda x, y: jnp.where(x > y, x, y),
}


def lacking(model, version):
    """The nodes of a model that a version has no kernel for."""
    dtypes = inferred_dtypes(model)
    casts = [lag.casts for lag in LAGS if version in versions(lag.versions)]
    return [
        node
        for node in model.graph.all_nodes()
        for table in casts
        for value in node.inputs
        if (dtype := dtypes.get(value)) and dtype.numpy().name in table.get(node.op_type, {})
    ]


@pytest.mark.each("operator", "dtype")
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("operator", BINARY)
def test_what_an_old_version_has_no_kernel_for_is_computed_in_another_dtype(operator, dtype):
    x = ENDS[dtype]
    with jax.enable_x64(True):
        found = converter.to_onnx(BINARY[operator], [x, x[::-1].copy()], target="onnxruntime==1.18")
        assert not lacking(found.model, "1.18")
        assert converter.check(found, BINARY[operator], [x, x[::-1].copy()]).passed


UNARY = {
    "TopK": (lambda x: jax.lax.top_k(x, 3), ("int8", "int16", "uint8")),
    "ArgMin": (jnp.argmin, ("int8", "uint8")),
    "Neg": (jnp.negative, ("int16",)),
    "Trilu": (lambda x: jnp.tril(x[:, None] * x), ("int32",)),
    "Div": (lambda x: x // 3, ("int8", "int16", "uint8", "uint16", "uint32")),
    "BitShift": (jax.lax.clz, ("uint32", "uint64")),
    "Shift": (lambda x: jax.lax.shift_left(x, x), ("uint8", "uint16", "uint32")),
}


@pytest.mark.each("operator", "dtype")
@pytest.mark.parametrize(
    ("operator", "dtype"), [(name, dtype) for name in UNARY for dtype in UNARY[name][1]]
)
def test_operators_of_one_operand(operator, dtype):
    fn, x = UNARY[operator][0], ENDS[dtype]
    with jax.enable_x64(True):
        found = converter.to_onnx(fn, [x], target="onnxruntime==1.18")
        assert not lacking(found.model, "1.18")
        assert converter.check(found, fn, [x]).passed


def test_cosines_of_float64():
    zeros, eps = np.pi / 2 * np.arange(-9, 999), np.finfo(np.float64).eps
    x = np.concatenate([np.linspace(-9, 9, 101), zeros, [1e8, 1.7e308, -1e301, 1e-310, np.inf]])
    with jax.enable_x64(True):
        found = converter.to_onnx(jnp.cos, [x], target="onnxruntime==1.22")
        assert "Cos" not in found.report.histogram
        (got,) = converter.run(found, [x]).values()
    with np.errstate(invalid="ignore"):
        wanted = np.cos(x)
    # ONNX Runtime's own sine of pi is 0, and that of 10 pi is right to the last digit.
    least = np.where(abs(x) > 5, 0, 1)
    np.testing.assert_array_less(abs(got - wanted)[:-1], (4 * eps * (abs(wanted) + least))[:-1])
    assert np.isnan(got[-1])
    assert converter.to_onnx(jnp.cos, [(3,)], target="onnxruntime==1.22").report.histogram["Cos"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("operator", [jnp.maximum, jnp.minimum])
def test_extremes_of_nan(operator, dtype):
    """ONNX Runtime 1.18, and 1.19 in float16, give the operand that is a number."""
    x, y = np.array([[1, np.nan, np.nan, -np.inf], [np.nan, 1, np.inf, np.nan]], dtype)
    with jax.enable_x64(True):
        found = converter.to_onnx(operator, [x, y[:, None]], target="onnxruntime==1.18")
        assert (found.report.histogram["IsNaN"], found.report.histogram["Where"]) == (2, 2)
        assert converter.check(found, operator, [x, y[:, None]]).passed
    known = converter.to_onnx(lambda x: operator(x, 0.5), [x], target="onnxruntime==1.18")
    assert (known.report.histogram["IsNaN"], known.report.histogram["Where"]) == (1, 1)
    newer = converter.to_onnx(operator, [x, x], target="onnxruntime==1.20")
    assert "IsNaN" not in newer.report.histogram


@pytest.mark.parametrize(
    ("text", "opset", "newest"),
    [
        *(("==1.18.1", 21, 21), (">=1.20", 21, 21), ("==1.23.0", 22, 22), ("==1.23.1", 23, 23)),
        ("==1.24.4", 23, 23),
    ],
)
def test_the_opset_is_one_that_every_version_loads(text, opset, newest):
    target = f"onnxruntime{text}"
    assert converter.to_onnx(jnp.tanh, [(3,)], target=target).model.opset_imports[""] == opset
    assert find_target(target).opsets[-1] == newest
    with pytest.raises(converter.SpecError, match=f"opset must be 17 to {newest}"):
        converter.to_onnx(jnp.tanh, [(3,)], target=target, opset=newest + 1)


@pytest.mark.parametrize(("text", "is_there"), [("==1.23.2", False), (">=1.24", True), ("", True)])
def test_an_operator_that_older_versions_lack_at_an_opset(text, is_there):
    target = find_target(f"onnxruntime{text}")
    assert target.takes("QuantizeLinear", "float32", 23) == is_there
    assert target.takes("QuantizeLinear", "float32", 22)


def test_a_plain_name_means_what_files_are_checked_in():
    assert OLDEST_RUNTIME in find_target("onnxruntime").versions
    assert "1.22.1" not in find_target("onnxruntime").versions
    assert converter.to_onnx(jnp.tanh, [(3,)], opset=26).model.opset_imports[""] == 26


def test_the_web_has_no_where_of_bytes():
    """Of onnxruntime-web 1.30.0, the newest release on npm."""
    x = np.arange(-8, 8).reshape(4, 4).astype(np.float32)
    fn = lambda x: jnp.round(x * 20).astype(jnp.int8) // 3  # noqa: E731
    found = converter.to_onnx(fn, [("n", 4)], target="web")
    assert not lacking(found.model, "1.30")
    assert converter.check(found, fn, [x]).passed


def test_versions_are_compared_by_number():
    assert (
        is_older("1.9.1", "1.23") and is_older("1.22.1", "1.23") and not is_older("1.23.0", "1.23")
    )
    assert not warning_if_too_old(OLDEST_RUNTIME) and "1.22.1 is installed" in warning_if_too_old(
        "1.22.1"
    )


def test_old_runtimes_are_refused_in_a_sentence(monkeypatch):
    import onnxruntime

    export = converter.to_onnx(jnp.tanh, [(3,)])
    monkeypatch.setattr(onnxruntime, "__version__", "1.22.1")
    with pytest.raises(converter.CheckError, match=r"ONNX Runtime 1\.22\.1 is installed"):
        converter.check(export, jnp.tanh)


def test_a_dtype_of_what_a_rule_writes_on_the_way_is_known():
    """The rule of `clz` stamps its result alone."""
    found = converter.to_onnx(jax.lax.clz, [((3,), "uint32")])
    dtypes = inferred_dtypes(found.model)
    assert all(dtypes[value] for node in found.model.graph for value in node.outputs)
    assert any(value.dtype is None for node in found.model.graph for value in node.outputs)
    assert isinstance(found.model, ir.Model)


def test_what_a_lag_does_not_change_has_no_numbers_of_it():
    """ONNX Runtime warns of what no node uses."""
    model = converter.to_onnx(jnp.cos, [(3,)]).model
    replace_cosines(model)
    assert not model.graph.initializers


@pytest.mark.parametrize("dtype", NARROW[:3])
def test_nodes_have_names_of_their_own(dtype):
    """ONNX Runtime 1.18 loads nothing else; of a node that is cast for two reasons, too."""

    def fn(x, y):
        return x - jnp.where(x < 0, y, jnp.zeros_like(y))

    numbers = ENDS[dtype], ENDS[dtype][::-1].copy()
    model = converter.to_onnx(fn, numbers, target="onnxruntime==1.18", opset=18).model
    names = [node.name for node in model.graph.all_nodes()]
    assert len(names) == len({*names})
