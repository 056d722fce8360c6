"""How a file shows what was converted: its layouts, whether it is right, what it says of itself."""

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
    """In channels-last, with a residual sum and a pooled head."""
    x = jax.nn.relu(conv(image, params["one"], 2) + shift)
    x = x + jax.nn.silu(conv(x, params["two"]))
    return {"map": x, "logits": x.mean((1, 2)) @ params["head"]}


IMAGE, SHIFT = drawn(3, 8, 6, 4), drawn(6)
SPECS = [("B", 8, 6, 4), (6,)]


def export(**how):
    return converter.to_onnx(network, SPECS, params=PARAMS, **how)


def test_channels_first_without_a_transpose():
    last = export()
    assert last.report.histogram["Transpose"] == 2
    first = export(channels_first=["image", "map"])
    assert "Transpose" not in first.report.histogram
    shapes = [[str(d) for d in v.shape] for v in (*first.model.graph.inputs,)]
    assert shapes == [["B", "4", "8", "6"], ["6"]]
    assert {v.name: v.shape.rank() for v in first.model.graph.outputs} == {"logits": 2, "map": 4}
    got = converter.run(first, [np.moveaxis(IMAGE, -1, 1), SHIFT])
    wanted = network(PARAMS, IMAGE, SHIFT)
    np.testing.assert_allclose(got["map"], np.moveaxis(wanted["map"], -1, 1), atol=1e-5)
    np.testing.assert_allclose(got["logits"], wanted["logits"], atol=1e-5)


@pytest.mark.full
def test_only_inputs_or_outputs():
    for names in (["image"], ["map"]):
        found = export(channels_first=names, verify=[IMAGE, SHIFT])
        assert found.report.histogram.get("Transpose", 0) == 1
    assert not converter.bisect(network, [IMAGE, SHIFT], params=PARAMS, channels_first=["map"])
    named = {"input_names": ["x", "y"], "output_names": ["a", "b"], "channels_first": ["x", "b"]}
    assert export(**named, verify=[IMAGE, SHIFT]).verdict.passed


@pytest.mark.full
def test_one_and_three_axes_of_space():
    how = {"channels_first": ["x", "output_1"]}
    for x in (drawn(2, 7, 3), drawn(2, 5, 6, 7, 3)):
        found = converter.to_onnx(lambda x: (x, jnp.sin(x)), [x], verify=[x], **how)
        got = converter.run(found, [np.moveaxis(x, -1, 1)])
        np.testing.assert_array_equal(got["output_0"], x)
        np.testing.assert_allclose(got["output_1"], np.moveaxis(np.sin(x), -1, 1), atol=1e-6)


def test_what_cannot_be_channels_first():
    with pytest.raises(converter.SpecError, match=r"of image, shift, logits, map; .*'picture'"):
        export(channels_first=["picture"])
    with pytest.raises(converter.SpecError, match="received 'image'"):
        export(channels_first="image")
    for name, text in (("shift", r"float32\[6\]"), ("logits", r"float32\[B,5\]")):
        with pytest.raises(converter.SpecError, match=f"'{name}' is {text}; leave it out"):
            export(channels_first=[name])


# ------------------------------------------------------------------------------------ verify


def test_nothing_is_written_that_is_wrong(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"

    def wrong(model, target):
        next(n for n in model.graph if n.op_type == "Sin").op_type = "Cos"
        return model

    monkeypatch.setattr("converter.api.conversion.clean_up_model", wrong)
    with pytest.raises(converter.CheckError, match=r"is not what JAX computes: output_0\[0, 0\]"):
        converter.to_onnx(jnp.sin, [(2, 3)], path=path, verify=True)
    assert not list(tmp_path.iterdir())


def test_a_deviation_that_shows_is_named():
    numbers = [-np.logspace(-6, -2, 50, dtype=np.float32)]
    with pytest.raises(converter.CheckError, match=r"strict=True may mend it, since an expon"):
        converter.to_onnx(jax.nn.elu, [(50,)], verify=numbers)
    assert converter.to_onnx(jax.nn.elu, [(50,)], verify=numbers, strict=True).verdict.passed


def test_what_cannot_be_verified():
    abstract = {"w": jax.ShapeDtypeStruct((3, 2), jnp.float32)}
    with pytest.raises(converter.SpecError, match="w has no value"):
        converter.to_onnx(lambda p, x: x @ p["w"], [("B", 3)], params=abstract, verify=True)
    with pytest.raises(converter.CheckError, match="takes 1 inputs, received 2"):
        converter.to_onnx(jnp.sin, [(2, 3)], verify=[IMAGE, IMAGE])
    with pytest.raises(converter.SpecError, match="returns no array"):
        converter.to_onnx(lambda x: None, [(2, 3)])


def test_what_is_no_array_is_compared_as_jax_returns_it(tmp_path):
    """Python's numbers, and what numpy computes in 64 bits."""
    path, x = tmp_path / "model.onnx", np.ones((2, 4), np.float32)

    def fn(x):
        return jnp.size(x, (0, 1)), 1.5, True, np.arange(3), np.float64(2.5), x * 2

    assert len(converter.to_onnx(fn, [("N", 4)], verify=True, path=path).verdict) == 6
    for got, want in zip(converter.run(path, [x]).values(), jax.jit(fn)(x), strict=True):
        np.testing.assert_array_equal(got, want, strict=True)


# ---------------------------------------------------------------------------------- metadata

SHAPE = ("B", 4)


def test_what_a_file_says(tmp_path):
    path = tmp_path / "model.onnx"
    said = {"graph_name": "sine", "producer_name": "us", "producer_version": "1.2"}
    said |= {"domain": "com.example", "model_version": 7, "doc_string": "the sine"}
    said |= {"properties": {"zebra": "1", "author": "me"}}
    converter.to_onnx(jnp.sin, [SHAPE], metadata=converter.Metadata(**said), path=path)
    meta = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).get_modelmeta()
    assert (meta.graph_name, meta.producer_name, meta.domain) == ("sine", "us", "com.example")
    assert (meta.version, meta.description) == (7, "the sine")
    assert meta.custom_metadata_map == {"author": "me", "zebra": "1"}


def test_properties_alone_and_none():
    """They are texts."""
    model = converter.to_onnx(jnp.sin, [SHAPE], metadata={"author": "me"}).model
    assert model.metadata_props == {"author": "me"}
    assert (model.producer_name, model.graph.name) == ("jax-onnx-zoo", "main_graph")
    assert not any(node.doc_string for node in model.graph)
    with pytest.raises(converter.SpecError, match="received 'epoch': 3; write 'epoch': '3'"):
        converter.to_onnx(jnp.sin, [SHAPE], metadata={"epoch": 3})


# ------------------------------------------------------------------------------- source lines


def test_the_same_bytes_wherever_the_code_is(tmp_path, monkeypatch):
    """A package in two folders: lines are told from where the package begins."""
    written = []
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
        written.append(ir.to_proto(export.model).SerializeToString(deterministic=True))
    assert written[0] == written[1]
    assert b"layers/inner.py:4 (network)" in written[0]
