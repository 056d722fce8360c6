"""Files for older versions of ONNX Runtime: their opsets, and kernels that these versions lack.

Files are compared with JAX in the installed version, and must not contain nodes for which the older
version has no kernel. The full tier runs them in the older versions (`tests/onnxruntimes/`).
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
from converter.targets.versions import parse_versions

NARROW = ("int8", "int16", "uint8", "uint16", "uint32", "uint64")
EXTREMES = {
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


def nodes_without_kernel(model, version):
    """Return the nodes of a model for which a version of ONNX Runtime has no kernel."""
    dtypes = inferred_dtypes(model)
    casts = [lag.casts for lag in LAGS if version in parse_versions(lag.versions)]
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
def test_missing_kernels_of_old_versions_are_avoided(operator, dtype):
    x = EXTREMES[dtype]
    with jax.enable_x64(True):
        export = converter.to_onnx(
            BINARY[operator], [x, x[::-1].copy()], target="onnxruntime==1.18"
        )
        assert not nodes_without_kernel(export.model, "1.18")
        assert converter.check(export, BINARY[operator], [x, x[::-1].copy()]).passed


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
def test_missing_kernels_of_one_operand_are_avoided(operator, dtype):
    fn, x = UNARY[operator][0], EXTREMES[dtype]
    with jax.enable_x64(True):
        export = converter.to_onnx(fn, [x], target="onnxruntime==1.18")
        assert not nodes_without_kernel(export.model, "1.18")
        assert converter.check(export, fn, [x]).passed


def test_cosines_of_float64_agree_with_numpy():
    zeros, eps = np.pi / 2 * np.arange(-9, 999), np.finfo(np.float64).eps
    x = np.concatenate([np.linspace(-9, 9, 101), zeros, [1e8, 1.7e308, -1e301, 1e-310, np.inf]])
    with jax.enable_x64(True):
        export = converter.to_onnx(jnp.cos, [x], target="onnxruntime==1.22")
        assert "Cos" not in export.report.histogram
        (actual,) = converter.run(export, [x]).values()
    with np.errstate(invalid="ignore"):
        expected = np.cos(x)
    # ONNX Runtime's sine of pi is 0, and its sine of 10 pi is exact to the last digit.
    smallest = np.where(abs(x) > 5, 0, 1)
    np.testing.assert_array_less(
        abs(actual - expected)[:-1], (4 * eps * (abs(expected) + smallest))[:-1]
    )
    assert np.isnan(actual[-1])
    assert converter.to_onnx(jnp.cos, [(3,)], target="onnxruntime==1.22").report.histogram["Cos"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("operator", [jnp.maximum, jnp.minimum])
def test_extremes_of_nan_agree_with_jax(operator, dtype):
    """Extremes of NaN are NaN in older versions too.

    ONNX Runtime 1.18, and 1.19 in float16, return the operand that is no NaN.
    """
    x, y = np.array([[1, np.nan, np.nan, -np.inf], [np.nan, 1, np.inf, np.nan]], dtype)
    with jax.enable_x64(True):
        export = converter.to_onnx(operator, [x, y[:, None]], target="onnxruntime==1.18")
        assert (export.report.histogram["IsNaN"], export.report.histogram["Where"]) == (2, 2)
        assert converter.check(export, operator, [x, y[:, None]]).passed
    with_constant = converter.to_onnx(lambda x: operator(x, 0.5), [x], target="onnxruntime==1.18")
    assert (with_constant.report.histogram["IsNaN"], with_constant.report.histogram["Where"]) == (
        1,
        1,
    )
    newer = converter.to_onnx(operator, [x, x], target="onnxruntime==1.20")
    assert "IsNaN" not in newer.report.histogram


@pytest.mark.parametrize(
    ("text", "opset", "newest"),
    [
        *(("==1.18.1", 21, 21), (">=1.20", 21, 21), ("==1.23.0", 22, 22), ("==1.23.1", 23, 23)),
        ("==1.24.4", 23, 23),
    ],
)
def test_the_opset_is_loaded_by_every_version(text, opset, newest):
    target = f"onnxruntime{text}"
    assert converter.to_onnx(jnp.tanh, [(3,)], target=target).model.opset_imports[""] == opset
    assert find_target(target).opsets[-1] == newest
    with pytest.raises(converter.SpecError, match=f"opset must be 17 to {newest}"):
        converter.to_onnx(jnp.tanh, [(3,)], target=target, opset=newest + 1)


@pytest.mark.parametrize(
    ("text", "is_supported"), [("==1.23.2", False), (">=1.24", True), ("", True)]
)
def test_operators_depend_on_the_version_and_the_opset(text, is_supported):
    target = find_target(f"onnxruntime{text}")
    assert target.has_operator("QuantizeLinear", "float32", 23) == is_supported
    assert target.has_operator("QuantizeLinear", "float32", 22)


def test_targets_without_versions_include_the_oldest_supported_one():
    assert OLDEST_RUNTIME in find_target("onnxruntime").versions
    assert "1.22.1" not in find_target("onnxruntime").versions
    assert converter.to_onnx(jnp.tanh, [(3,)], opset=26).model.opset_imports[""] == 26


def test_files_for_the_web_have_no_where_of_int8():
    """onnxruntime-web 1.30.0, the newest release on npm, has no kernel of Where for int8."""
    x = np.arange(-8, 8).reshape(4, 4).astype(np.float32)
    fn = lambda x: jnp.round(x * 20).astype(jnp.int8) // 3  # noqa: E731
    export = converter.to_onnx(fn, [("n", 4)], target="web")
    assert not nodes_without_kernel(export.model, "1.30")
    assert converter.check(export, fn, [x]).passed


def test_versions_are_compared_by_number():
    assert (
        is_older("1.9.1", "1.23") and is_older("1.22.1", "1.23") and not is_older("1.23.0", "1.23")
    )
    assert not warning_if_too_old(OLDEST_RUNTIME) and "1.22.1 is installed" in warning_if_too_old(
        "1.22.1"
    )


def test_old_runtimes_are_rejected_with_a_message(monkeypatch):
    import onnxruntime

    export = converter.to_onnx(jnp.tanh, [(3,)])
    monkeypatch.setattr(onnxruntime, "__version__", "1.22.1")
    with pytest.raises(converter.CheckError, match=r"ONNX Runtime 1\.22\.1 is installed"):
        converter.check(export, jnp.tanh)


def test_dtypes_of_intermediate_values_are_inferred():
    """Dtypes of all values are inferred, although the rule of `clz` sets only its result's."""
    export = converter.to_onnx(jax.lax.clz, [((3,), "uint32")])
    dtypes = inferred_dtypes(export.model)
    assert all(dtypes[value] for node in export.model.graph for value in node.outputs)
    assert any(value.dtype is None for node in export.model.graph for value in node.outputs)
    assert isinstance(export.model, ir.Model)


def test_lags_without_matching_nodes_add_no_constants():
    """No constants are added for a lag that changes no node: ONNX Runtime warns of unused ones."""
    model = converter.to_onnx(jnp.cos, [(3,)]).model
    replace_cosines(model)
    assert not model.graph.initializers


@pytest.mark.parametrize("dtype", NARROW[:3])
def test_names_of_nodes_are_unique(dtype):
    """Names of nodes are unique, also if a node is cast for two reasons.

    ONNX Runtime 1.18 does not load other files.
    """

    def fn(x, y):
        return x - jnp.where(x < 0, y, jnp.zeros_like(y))

    arrays = EXTREMES[dtype], EXTREMES[dtype][::-1].copy()
    model = converter.to_onnx(fn, arrays, target="onnxruntime==1.18", opset=18).model
    names = [node.name for node in model.graph.all_nodes()]
    assert len(names) == len({*names})
