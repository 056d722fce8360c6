"""Options of `converter.to_onnx` that shape the file: layouts, verification, metadata, lines."""

import importlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

import converter
from tests.programs.channels import conv, drawn

PARAMS = {"one": drawn(3, 3, 4, 6), "two": drawn(3, 3, 6, 6), "head": drawn(6, 5)}


def network(params, image, shift):
    """Apply a channels-last network with a residual sum and a pooled head."""
    x = jax.nn.relu(conv(image, params["one"], 2) + shift)
    x = x + jax.nn.silu(conv(x, params["two"]))
    return {"map": x, "logits": x.mean((1, 2)) @ params["head"]}


IMAGE, SHIFT = drawn(3, 8, 6, 4), drawn(6)
SPECS = [("B", 8, 6, 4), (6,)]


def export(**options):
    return converter.to_onnx(network, SPECS, params=PARAMS, **options)


def test_channels_first_needs_no_transpose():
    channels_last = export()
    assert channels_last.report.histogram["Transpose"] == 2
    first = export(channels_first=["image", "map"])
    assert "Transpose" not in first.report.histogram
    shapes = [[str(d) for d in v.shape] for v in (*first.model.graph.inputs,)]
    assert shapes == [["B", "4", "8", "6"], ["6"]]
    assert {v.name: v.shape.rank() for v in first.model.graph.outputs} == {"logits": 2, "map": 4}
    actual = converter.run(first, [np.moveaxis(IMAGE, -1, 1), SHIFT])
    expected = network(PARAMS, IMAGE, SHIFT)
    np.testing.assert_allclose(actual["map"], np.moveaxis(expected["map"], -1, 1), atol=1e-5)
    np.testing.assert_allclose(actual["logits"], expected["logits"], atol=1e-5)


@pytest.mark.full
def test_channels_first_of_inputs_or_outputs_only():
    for names in (["image"], ["map"]):
        result = export(channels_first=names, verify=[IMAGE, SHIFT])
        assert result.report.histogram.get("Transpose", 0) == 1
    assert not converter.bisect(network, [IMAGE, SHIFT], params=PARAMS, channels_first=["map"])
    options = {"input_names": ["x", "y"], "output_names": ["a", "b"], "channels_first": ["x", "b"]}
    assert export(**options, verify=[IMAGE, SHIFT]).verdict.passed


@pytest.mark.full
def test_channels_first_with_one_and_three_spatial_axes():
    options = {"channels_first": ["x", "output_1"]}
    for x in (drawn(2, 7, 3), drawn(2, 5, 6, 7, 3)):
        export_of_x = converter.to_onnx(lambda x: (x, jnp.sin(x)), [x], verify=[x], **options)
        actual = converter.run(export_of_x, [np.moveaxis(x, -1, 1)])
        np.testing.assert_array_equal(actual["output_0"], x)
        np.testing.assert_allclose(actual["output_1"], np.moveaxis(np.sin(x), -1, 1), atol=1e-6)


def test_invalid_channels_first_names_are_rejected():
    with pytest.raises(converter.SpecError, match=r"of image, shift, logits, map; .*'picture'"):
        export(channels_first=["picture"])
    with pytest.raises(converter.SpecError, match="received 'image'"):
        export(channels_first="image")
    for name, text in (("shift", r"float32\[6\]"), ("logits", r"float32\[B,5\]")):
        with pytest.raises(converter.SpecError, match=f"'{name}' is {text}; leave it out"):
            export(channels_first=[name])


# ------------------------------------------------------------------------------------ verify


def test_files_that_fail_verification_are_not_written(tmp_path, cosine_for_sine):
    path = tmp_path / "model.onnx"
    with pytest.raises(converter.CheckError, match=r"is not what JAX computes: output_0\[0, 0\]"):
        converter.to_onnx(jnp.sin, [(2, 3)], path=path, verify=True)
    assert not list(tmp_path.iterdir())


def test_failed_checks_name_the_deviation():
    numbers, fn = [np.logspace(-6, -2, 50, dtype=np.float32) - 3], jax.nn.hard_sigmoid
    with pytest.raises(converter.CheckError, match=r"strict=True may mend it, since a hard sigm"):
        converter.to_onnx(fn, [(50,)], verify=numbers)
    assert converter.to_onnx(fn, [(50,)], verify=numbers, strict=True).verdict.passed


def test_functions_that_cannot_be_verified_are_rejected():
    abstract = {"w": jax.ShapeDtypeStruct((3, 2), jnp.float32)}
    with pytest.raises(converter.SpecError, match="w has no value"):
        converter.to_onnx(lambda p, x: x @ p["w"], [("B", 3)], params=abstract, verify=True)
    with pytest.raises(converter.CheckError, match="takes 1 inputs, received 2"):
        converter.to_onnx(jnp.sin, [(2, 3)], verify=[IMAGE, IMAGE])
    with pytest.raises(converter.SpecError, match="returns no array"):
        converter.to_onnx(lambda x: None, [(2, 3)])


def test_models_that_cannot_be_run_or_compared(tmp_path):
    exported, x = converter.to_onnx(jnp.sin, [(3,)]), np.float32([1, 2, 3])
    for inputs in ([], [x, x]):
        with pytest.raises(converter.CheckError, match=f"takes 1 inputs, received {len(inputs)}"):
            converter.run(exported, inputs)
    with pytest.raises(converter.CheckError, match="has 1 outputs, the function gave 2"):
        converter.check(exported, lambda x: (x, x), [x])
    with pytest.raises(converter.CheckError, match=r"float32\[3\] in ONNX.* float32\[2\] in JAX"):
        converter.check(exported, lambda x: x[:2], [x])
    with pytest.raises(converter.CheckError, match="is not a file; pass the path of a model"):
        converter.run(tmp_path, [x])
    with pytest.raises(converter.CheckError, match="a path or a session, received int"):
        converter.run(5, [x])


def test_numbers_are_compared_as_jax_returns_them(tmp_path):
    """Python's numbers and numpy's numbers of 64 bits have the dtypes that JAX returns."""
    path, x = tmp_path / "model.onnx", np.ones((2, 4), np.float32)

    def fn(x):
        return jnp.size(x, (0, 1)), 1.5, True, np.arange(3), np.float64(2.5), x * 2

    assert len(converter.to_onnx(fn, [("N", 4)], verify=True, path=path).verdict) == 6
    for actual, reference in zip(converter.run(path, [x]).values(), jax.jit(fn)(x), strict=True):
        np.testing.assert_array_equal(actual, reference, strict=True)


# ---------------------------------------------------------------------------------- metadata

SHAPE = ("B", 4)


def test_metadata_is_in_the_file(tmp_path):
    path = tmp_path / "model.onnx"
    metadata = {"graph_name": "sine", "producer_name": "us", "producer_version": "1.2"}
    metadata |= {"domain": "com.example", "model_version": 7, "doc_string": "the sine"}
    metadata |= {"properties": {"zebra": "1", "author": "me"}}
    converter.to_onnx(jnp.sin, [SHAPE], metadata=converter.Metadata(**metadata), path=path)
    meta = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).get_modelmeta()
    assert (meta.graph_name, meta.producer_name, meta.domain) == ("sine", "us", "com.example")
    assert (meta.version, meta.description) == (7, "the sine")
    assert meta.custom_metadata_map == {"author": "me", "zebra": "1"}


def test_metadata_may_be_properties_alone():
    """Properties must be strings."""
    model = converter.to_onnx(jnp.sin, [SHAPE], metadata={"author": "me"}).model
    assert model.metadata_props == {"author": "me"}
    assert (model.producer_name, model.graph.name) == ("jax-onnx-zoo", "main_graph")
    assert not any(node.doc_string for node in model.graph)
    with pytest.raises(converter.SpecError, match="received 'epoch': 3; write 'epoch': '3'"):
        converter.to_onnx(jnp.sin, [SHAPE], metadata={"epoch": 3})


# ------------------------------------------------------------------------------- source lines


def test_source_lines_do_not_depend_on_the_folder(tmp_path, monkeypatch):
    """A package in two folders gives the same file: source lines are relative to the package."""
    files = []
    for name in ("one", "another"):
        package = tmp_path / name / "layers"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("from layers.inner import network\n")
        (package / "inner.py").write_text(
            "import jax.numpy as jnp\n\ndef network(x):\n    return jnp.tanh(x) * 2\n"
        )
        with monkeypatch.context() as patch:
            patch.syspath_prepend(package.parent)
            network = importlib.import_module("layers").network
            export = converter.to_onnx(network, [SHAPE], source_lines=True)
        del sys.modules["layers"], sys.modules["layers.inner"]
        files.append(ir.to_proto(export.model).SerializeToString(deterministic=True))
    assert files[0] == files[1]
    assert b"layers/inner.py:4 (network)" in files[0]
