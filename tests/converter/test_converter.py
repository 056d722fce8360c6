"""The interface of `converter.to_onnx`: specs, pytrees, names, parameters, passes and errors."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax import lax

import converter
from converter.pipeline import passes
from converter.verify.sessions import run
from tests.conformance import drawn

MLP = drawn(lambda key: eqx.nn.MLP(4, 3, 8, 2, key=key))
MLP_NAMES = [f"layers.{i}.{leaf}" for i in range(3) for leaf in ("weight", "bias")]


# ----------------------------------------------------------------------------------------- specs


@pytest.mark.parametrize(
    ("spec", "dtype", "shape"),
    [
        ((2, 3), "FLOAT", [2, 3]),
        (("B", 3), "FLOAT", ["B", 3]),
        (((2, "n"), jnp.float16), "FLOAT16", [2, "n"]),
        (((), np.int32), "INT32", []),
        (jax.ShapeDtypeStruct((4,), jnp.int8), "INT8", [4]),
        (np.zeros((2, 2), np.uint8), "UINT8", [2, 2]),
        (jnp.ones(3, bool), "BOOL", [3]),
        (("2*h", "h"), "FLOAT", ["2*h", "h"]),
    ],
)
def test_specs_give_dtypes_and_shapes(spec, dtype, shape):
    model = converter.to_onnx(lambda x: (x, jnp.reshape(x, -1)), [spec]).model
    (value,) = model.graph.inputs
    assert value.dtype == ir.DataType[dtype]
    assert [d if isinstance(d, int) else d.value for d in value.shape] == shape


# Objects that are no input specs, and specs whose sizes cannot be parsed.
NO_SPECS = (3.5, {"x": 4}, {"x": None, "y": 2.0})
UNREAD = (("B", 3.5), ("B", "C D"), ((2, 3), (4, "1x")))


@pytest.mark.parametrize(
    ("specs", "options", "message"),
    [
        ((2, 3), {}, None),
        ("B", {}, None),
        ([7], {}, r"for one input write \[\[7\]\]"),
        ([(("B",), "float99")], {}, None),
        (("B", 3), {}, r"write \[\('B', 3\)\]"),
        ([(2,)], {"opset": 16}, "17 to 26"),
        ([(2,)], {"opset": 27}, "17 to 26"),
        ([(2,)], {"attention_layout": "5d"}, "5d"),
        # meant as [((3,), np.float32)]
        ([(3,), np.float32], {}, "an input spec must be a shape"),
        *(([spec], {}, "an input spec must be a shape") for spec in NO_SPECS),
        *(([spec], {}, "cannot be read") for spec in UNREAD),
        ([[("B", 3), 7]], {}, "has a tuple in it"),
    ],
)
def test_invalid_arguments_are_rejected(specs, options, message):
    with pytest.raises((converter.SpecError, TypeError), match=message):
        converter.to_onnx(jnp.sin, specs, **options)


@pytest.mark.parametrize("opset", converter.OPSETS)
def test_every_opset_has_an_ir_version_that_loads(opset):
    export = converter.to_onnx(jnp.sin, [(2,)], opset=opset, verify=True)
    assert export.model.opset_imports[""] == opset


# ----------------------------------------------------------------------------------------- names


def test_names_of_inputs_and_outputs():
    def fn(image, *, scale=2.0):
        return {"loud": image * scale, "quiet": image}

    export = converter.to_onnx(fn, [(2,)])
    assert [v.name for v in export.model.graph.inputs] == ["image"]
    assert [v.name for v in export.model.graph.outputs] == ["loud", "quiet"]
    defaults = converter.to_onnx(lambda x, slope=0.1: jnp.maximum(x, slope * x), [(2,)])
    assert [v.name for v in defaults.model.graph.inputs] == ["x"]
    renamed = converter.to_onnx(fn, [(2,)], input_names=["x"], output_names=["a", "b"])
    assert [v.name for v in renamed.model.graph.outputs] == ["a", "b"]
    clashing = converter.to_onnx(lambda x, y: x - y, [(3,), (3,)], output_names=["x"], verify=True)
    assert [v.name for v in clashing.model.graph.inputs] == ["x_1", "y"], "explicit names precede"
    with pytest.raises(converter.SpecError, match="2 different names"):
        converter.to_onnx(fn, [(2,)], output_names=["a"])


@pytest.mark.parametrize(
    "fn",
    [
        MLP,
        jax.vmap(MLP),
        eqx.filter_vmap(MLP),
        jax.jit(jax.vmap(lambda x: MLP(x))),
        lambda x: jax.vmap(MLP)(x),
        lambda x: lax.scan(lambda _, row: (None, MLP(row)), None, x)[1],
        jax.vmap(jax.tree.map(lambda leaf: np.asarray(leaf) if eqx.is_array(leaf) else leaf, MLP)),
        jax.tree_util.Partial(lambda m, x: m(x), MLP),
    ],
    ids=["module", "vmap", "filter_vmap", "jit", "lambda", "scan", "numpy", "partial"],
)
def test_parameters_are_named_by_their_path(fn):
    spec = (4,) if isinstance(fn, (eqx.nn.MLP, jax.tree_util.Partial)) else ("B", 4)
    names = set(converter.to_onnx(fn, [spec]).model.graph.initializers)
    assert {n.removeprefix("0.0.") for n in names} == set(MLP_NAMES)


def test_captured_modules_and_explicit_parameters_are_named():
    first, second = (eqx.nn.Linear(4, 4, key=jax.random.key(i)) for i in (0, 1))
    export = converter.to_onnx(lambda p, x: p(second(x)), [(4,)], params=first, verify=True)
    assert {*export.model.graph.initializers} == {"weight", "bias", "weight_1", "bias_1"}


def weighted(p, x):
    return {"w": x @ p["w"], "x": x + 1, "plain": x, "param": p["w"]}


NESTED = {"a": {"b": np.ones(3, np.float32)}, "a.b": np.full(3, 2, np.float32)}


@pytest.mark.parametrize(
    ("fn", "params", "inputs", "outputs"),
    [
        (lambda x: {"x": x + 1}, None, ["x"], ["x_1"]),
        (lambda x: {"x": x, "x_1": x}, None, ["x"], ["x_1", "x_1_1"]),
        (lambda x: {"a": {"b": x}, "a.b": x + 1}, None, ["x"], ["a.b", "a.b_1"]),
        (lambda x: {"1": x, "output_0": x - 1}, None, ["x"], ["output_0", "output_0_1"]),
        (weighted, {"w": np.eye(3, dtype=np.float32)}, ["x"], ["param", "plain", "w_1", "x_1"]),
        (lambda p, w: p["w"] * w, {"w": np.arange(3.0)}, ["w_1"], ["output_0"]),
        (lambda p, x: p["a"]["b"] - p["a.b"] * x, NESTED, ["x"], ["output_0"]),
        # The names are those that the converter gives to nodes and constants that it adds.
        (lambda Add_0: {"Mul_0": Add_0 + 1, "const_0": Add_0 * 2}, None, ["Add_0"], None),
        (lambda x: {"Split_0_0": x[:1] * 3, "y": x[1:] * 3}, None, ["x"], None),
        (lambda p, x: {"a+b": x @ (p["a"] @ p["b"])}, {n: np.eye(3) for n in "ab"}, ["x"], ["a+b"]),
    ],
)
def test_clashing_generated_names_get_a_number(fn, params, inputs, outputs, tmp_path):
    params = jax.tree.map(lambda a: a.astype(np.float32), params)
    x, path = np.arange(3, dtype=np.float32), tmp_path / "model.onnx"
    export = converter.to_onnx(fn, [(3,)], params=params, path=path, verify=[x])
    assert [v.name for v in export.model.graph.inputs] == inputs
    names = [v.name for v in export.model.graph.outputs]
    assert names == (outputs or sorted(fn(x))), "outputs have the keys as names"
    onnx.checker.check_model(path, full_check=True)


def test_clashing_explicit_names_are_rejected():
    params = {"w": np.ones(3, np.float32)}
    for names in ({"input_names": ["w"]}, {"input_names": ["y"], "output_names": ["y"]}):
        with pytest.raises(converter.SpecError, match=r"'[wy]' can name only one of"):
            converter.to_onnx(lambda p, x: x * p["w"], [(3,)], params=params, **names)


# ------------------------------------------------------------------------------------ parameters


class Recording(dict):
    """A source of parameter values that records the names that are read."""

    def __init__(self) -> None:
        super().__init__(
            zip(MLP_NAMES, jax.tree.leaves(eqx.filter(MLP, eqx.is_array)), strict=True)
        )
        self.reads: list[str] = []

    def __getitem__(self, name: str) -> np.ndarray:
        self.reads.append(name)
        return np.asarray(super().__getitem__(name))


def test_abstract_leaves_are_bound_when_the_file_is_saved(tmp_path):
    abstract, path = eqx.filter_eval_shape(lambda: MLP), tmp_path / "model.onnx"
    export = converter.to_onnx(lambda m, x: jax.vmap(m)(x), [("B", 4)], params=abstract)
    with pytest.raises(converter.SpecError, match=r"6 parameters have no value: layers\.0"):
        export.save(path)
    source = Recording()
    source["layers.1.bias"] = np.zeros(9, np.float32)
    with pytest.raises(converter.SpecError, match=r"layers\.1\.bias is float32\[8\], received"):
        export.save(path, values=source)
    assert not list(tmp_path.iterdir())
    source, sizes = Recording(), {}
    export.save(path, values=source, progress=sizes.__setitem__)
    assert sorted(source.reads) == sorted(MLP_NAMES), "each parameter is read once"
    assert set(sizes) == set(MLP_NAMES)
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    assert converter.check(path, jax.vmap(MLP), [x])["output_0"].max_rel <= 1e-6


def test_dropout_in_inference_and_constant_keys_add_no_nodes():
    layers = eqx.nn.Sequential(
        [eqx.nn.Dropout(0.5), eqx.nn.Linear(4, 3, key=jax.random.key(1)), eqx.nn.Dropout(0.1)]
    )
    inference = eqx.nn.inference_mode(layers)

    def fn(x):
        keys = jax.random.split(jax.random.key(7), x.shape[0])
        once = jax.checkpoint(jax.jit(lambda v, k: inference(v, key=k)))
        return jax.vmap(once)(x, keys), x[:, 0] + jax.random.permutation(jax.random.key(3), 5)

    export = converter.to_onnx(fn, [(5, 4)], verify=True)
    assert export.report.histogram == {"MatMul": 1, "Add": 2, "Gather": 1}


# ---------------------------------------------------------------------------------------- passes


def test_passes_are_in_the_order_that_they_declare():
    names = [step.name for step in passes.distinct_passes()]
    assert len(set(names)) == len(names)
    for position, step in enumerate(passes.distinct_passes()):
        assert step.purpose.endswith(".")
        for earlier in step.after:
            assert earlier in names[:position], f"{step.name} must follow {earlier} in the list"


@pytest.mark.parametrize("changes, turns", [((True, True, False), 3), ((True,) * 9, 4), ((), 1)])
def test_pass_groups_repeat_until_nothing_changes(monkeypatch, changes, turns):
    remaining, names_run = [*changes], []
    first = passes.Pass("first", "Changes.", lambda *_: bool(remaining and remaining.pop(0)))
    then = passes.Pass("then", "Nothing.", lambda *_: False)
    monkeypatch.setattr(passes, "PASSES", (passes.PassGroup((first, then)),))
    passes.run_passes(None, passes.PassSettings(), lambda name, _: names_run.append(name))
    expected_names = [
        "first",
        "then",
        *(f"{n} ({i})" for i in range(2, 9) for n in ("first", "then")),
    ]
    assert names_run == expected_names[: 2 * turns - (turns < 4)]


def test_every_pass_is_dumped(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVERTER_DUMP", str(tmp_path / "dump"))
    converter.to_onnx(jax.vmap(MLP), [("B", 4)])
    files = sorted((tmp_path / "dump").iterdir())
    names = [file.stem.split("_", 1)[1].replace("_", " ") for file in files]
    rows = [row for row in passes.PASSES if isinstance(row, passes.Pass)]
    ran = [name for name in names[1:-1] if "(" not in name]
    assert names[0] == "trace" and names[-1] == "model"
    assert {row.name for row in rows} <= set(ran) and "canonicalize (2)" in names
    assert "MatMul" in files[-1].read_text()


# ---------------------------------------------------------------------------------------- errors


def test_unsupported_primitives_are_named_with_their_source_line():
    """The message names the primitive, the dtype, the opset and the line in the user's source."""
    message = r"'eig'.*float32\[3,3\].*opset 21.*test_converter\.py:\d+ \(test_unsupported"
    with pytest.raises(converter.UnsupportedError, match=message):
        converter.to_onnx(eqx.filter_jit(lambda x: jnp.linalg.eigvals(x)), [(3, 3)], opset=21)


def test_functions_of_libraries_have_no_converter_source_line():
    (sentence,) = converter.to_onnx(jnp.argmax, [(3, 4)]).report.deviations
    line = sentence.rpartition("first from ")[2]
    # Before version 0.10, JAX records its own functions with the line that traces them.
    assert line.startswith(("unknown source line", __file__))


def test_check_measures_differences():
    export = converter.to_onnx(jnp.sin, [(3,)])
    x = np.array([0.5, 1.0, 1.5], np.float32)
    errors = converter.check(export, lambda x: jnp.sin(x) + 0.25, [x])["output_0"]
    assert errors.max_abs == pytest.approx(0.25, rel=1e-5)
    assert errors.max_rel == pytest.approx(0.25 / (np.sin(1.5) + 0.25), rel=1e-5)
    assert 0.9 < errors.cosine < 1
    nan = converter.check(export, lambda x: jnp.sin(x) * jnp.nan, [x])["output_0"]
    assert nan.max_abs == float("inf")


# ----------------------------------------------------------------------------------------- files


def test_an_export_has_a_short_repr():
    """Values and nodes refer to each other; their repr does not print the whole graph."""
    export = converter.to_onnx(lambda x: sum(jnp.tanh(x + i) for i in range(50)), [(3,)])
    assert repr(export) == "<Export at opset 23: 148 nodes>"
    assert all(len(repr(element)) < 200 for element in (export.graph, export.graph.nodes[-1]))


# --------------------------------------------------- pytrees, and arguments that are no inputs


class Boxes(NamedTuple):
    corners: object
    scores: object


def net(batch, boxes, *, training, scale, activation, reduction):
    image, mask = batch["image"], batch["mask"]
    best = jnp.where(mask, boxes.scores, 0) @ boxes.corners
    result = activation(image.mean(1) * scale) + (best.sum() if reduction == "sum" else best.max())
    return {"out": result + 1 if training else result, "best": best}


SPECS = [
    {"image": ("B", 3), "mask": ((4,), "bool")},
    Boxes(((4, 2), np.float32), np.zeros(4, np.float32)),
]
KWARGS = {"scale": ("B",), "training": False, "activation": jnp.tanh}


@pytest.mark.parametrize("reduction", ["sum", "max"])
def test_pytrees_are_flattened_to_named_inputs(reduction):
    """Keyword arguments that are strings, booleans or functions are used, but are no inputs."""
    rng, kwargs = np.random.default_rng(0), {**KWARGS, "reduction": reduction}
    batch = {"image": rng.random((2, 3), np.float32), "mask": np.array([True, False, True, True])}
    boxes = Boxes(rng.standard_normal((4, 2), np.float32), rng.random(4, np.float32))
    inputs = batch, boxes, rng.random(2, np.float32)
    export = converter.to_onnx(net, SPECS, kwargs=kwargs, verify=True)
    names = ["batch.image", "batch.mask", "boxes.corners", "boxes.scores", "scale"]
    assert [v.name for v in export.model.graph.inputs] == names
    assert [v.name for v in export.model.graph.outputs] == ["best", "out"]
    assert converter.check(export, net, inputs).passed
    assert converter.bisect(net, inputs, specs=SPECS, kwargs=kwargs) is None


def test_parameters_precede_inputs():
    params, kwargs = {"w": np.ones((3, 2), np.float32)}, {"bias": (2,)}

    def fn(params, batch, *, bias):
        return batch["x"] @ params["w"] + bias

    export = converter.to_onnx(fn, [{"x": ("B", 3)}], params=params, kwargs=kwargs, verify=True)
    assert [v.name for v in export.model.graph.inputs] == ["batch.x", "bias"]


def staged(x, *, scale, power):
    return {"out": (x * scale["s"]) ** power, "sum": x.sum()}


def test_traced_functions_are_converted():
    traced = jax.jit(staged, static_argnames="power").trace(
        np.ones((2, 3), np.float32), scale={"s": np.ones(3, np.float32)}, power=2
    )
    export = converter.to_onnx(traced)
    assert [v.name for v in export.model.graph.inputs] == ["input_0", "scale.s"]
    assert [v.name for v in export.model.graph.outputs] == ["out", "sum"]
    assert converter.check(export, lambda x, scale: staged(x, scale=scale, power=2)).passed
    assert converter.explain(traced).is_convertible


def test_objects_that_are_no_traceable_functions_are_rejected():
    exported = jax.export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((3,), np.float32))
    with pytest.raises(converter.SpecError, match="StableHLO"):
        converter.to_onnx(exported)
    with pytest.raises(converter.SpecError, match="its own inputs"):
        converter.to_onnx(jax.jit(jnp.sin).trace(np.ones(3)), [(3,)])
    with pytest.raises(converter.SpecError, match="received None"):
        converter.to_onnx(jnp.sin)


# ------------------------------------------------ inputs of 64 bits where JAX computes in 32 bits

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize(
    ("dtype", "onnx", "number", "expected"),
    [
        (np.int64, "INT64", 2**40 + 5, 6),
        (np.uint64, "UINT64", 2**33 + 7, 8),
        (np.float64, "DOUBLE", 1e300, np.inf),
    ],
)
def test_inputs_of_64_bits_are_cast_to_32(dtype, onnx, number, expected):
    """Inputs keep their dtype in the file; their values wrap or become infinite, as in JAX."""
    export = converter.to_onnx(lambda x: jnp.add(x, 1), [(("B", 3), dtype)], verify=True)
    (input_value,) = export.model.graph.inputs
    assert str(input_value.dtype) == onnx
    (actual,) = run(export, [np.full((2, 3), number, dtype)]).values()
    np.testing.assert_array_equal(actual, np.full((2, 3), expected))
    assert actual.dtype.itemsize == 4


def test_token_ids_of_64_bits_are_cast_once():
    ids = np.array([[3, 0, -1], [1, 1, 2]], np.int64)
    export = converter.to_onnx(lambda ids: jnp.asarray(TABLE)[ids], [ids], verify=[ids])
    assert export.report.histogram["Cast"] == 1


def test_parameters_of_64_bits_are_converted():
    matrix = np.arange(6.0).reshape(3, 2)
    converter.to_onnx(eqx.Partial(lambda w, x: jnp.dot(x, w), matrix), [(3,)], verify=True)
