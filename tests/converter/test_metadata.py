"""What a file and its nodes say about themselves."""

import shutil
import subprocess
import sys

import jax.numpy as jnp
import onnxruntime as ort
import pytest

import converter

SHAPE = ("B", 4)


def test_what_a_file_says(tmp_path):
    path = tmp_path / "model.onnx"
    said = converter.Metadata(
        graph_name="sine",
        producer_name="us",
        producer_version="1.2",
        domain="com.example",
        model_version=7,
        doc_string="the sine",
        properties={"zebra": "1", "author": "me"},
    )
    converter.to_onnx(jnp.sin, [SHAPE], metadata=said, path=path)
    meta = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).get_modelmeta()
    assert (meta.graph_name, meta.producer_name, meta.domain) == ("sine", "us", "com.example")
    assert (meta.version, meta.description) == (7, "the sine")
    assert meta.custom_metadata_map == {"author": "me", "zebra": "1"}


def test_properties_alone_and_none():
    model = converter.to_onnx(jnp.sin, [SHAPE], metadata={"author": "me"}).model
    assert model.metadata_props == {"author": "me"}
    assert (model.producer_name, model.graph.name) == ("jax-onnx-zoo", "main_graph")
    assert not any(node.doc_string for node in model.graph)


def test_properties_are_texts():
    with pytest.raises(converter.SpecError, match="received 'epoch': 3; write 'epoch': '3'"):
        converter.to_onnx(jnp.sin, [SHAPE], metadata={"epoch": 3})


# ------------------------------------------------------------------------------- source lines


PROGRAM = """
import sys
import converter, layers
export = converter.to_onnx(layers.network, [("B", 4)], source_lines=True)
export.save(sys.argv[1])
"""


@pytest.mark.full
def test_the_same_bytes_wherever_the_code_is(tmp_path):
    """A package in two folders: lines are told from where the package begins."""
    written = []
    for name in ("one", "another"):
        package = tmp_path / name / "layers"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("from layers.inner import network\n")
        (package / "inner.py").write_text(
            "import jax.numpy as jnp\n\ndef network(x):\n    return jnp.tanh(x) * 2\n"
        )
        target = tmp_path / f"{name}.onnx"
        command = [sys.executable, "-c", PROGRAM, str(target)]
        found = {"PYTHONPATH": ":".join([str(package.parent), *sys.path]), "PATH": ""}
        subprocess.run(command, check=True, cwd=package.parent, env=found)
        written.append(target.read_bytes())
        shutil.rmtree(package)
    assert written[0] == written[1]
    assert b"layers/inner.py:4 (network)" in written[0]
