"""`converter.bisect` and checks after each pass, which name the pass that has a planted fault."""

from dataclasses import fields, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from converter.ir import ops
from converter.ir.rewrite import sweep
from converter.pipeline import passes

X = np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)


def function(x):
    return jax.nn.softmax(jnp.sin(x) @ jnp.arange(16.0).reshape(4, 4) / 9) + x.T.reshape(3, 4)


@pytest.fixture
def planted(monkeypatch):
    """Return a function that replaces a pass by one that also makes a wrong change."""

    def plant(name, change):
        (step,) = (step for step in passes.distinct_passes() if step.name == name)

        def run(graph, settings):
            changed = step.run(graph, settings)
            change(graph)
            return changed

        faulty = replace(step, run=run)
        position = next(i for i, row in enumerate(passes.PASSES) if row is step)
        table = (*passes.PASSES[:position], faulty, *passes.PASSES[position + 1 :])
        monkeypatch.setattr(passes, "PASSES", table)

    return plant


def lost_bias(graph):
    sweep(graph, {ops.add: lambda node, editor: node.inputs[0]})


def another_shape(graph):
    for node in graph.nodes:
        if node.op is ops.reshape:
            node.params["shape"] = (4, 3)


def back_again(graph):
    """Add an operation that an earlier pass eliminates."""

    def stacked(node, editor):
        return editor.add(
            ops.stack, [editor.copy_with_operands(node, node.inputs)], (3, 4), "float32"
        )

    sweep(graph, {ops.sin: stacked})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("recognise", lost_bias, "output 0 at [0, 0] is"),
        *(
            pytest.param(name, lost_bias, "output 0 at [0, 0] is", marks=pytest.mark.full)
            for name in ("canonicalize", "take", "weight folding", "weight programs")
        ),
        ("complete", another_shape, "does not evaluate"),
        pytest.param("attend", back_again, "there is a 'stack'", marks=pytest.mark.full),
        # Operations that a pass eliminates are searched for after each later pass.
        ("weight programs", back_again, "there is a 'stack'"),
    ],
)
def test_the_pass_with_a_fault_is_named(monkeypatch, planted, name, change, message):
    """`bisect` names the pass, and so does a conversion with `CONVERTER_CHECK`."""
    planted(name, change)
    divergence = converter.bisect(function, [X])
    assert divergence is not None and divergence.step == name
    assert message in str(divergence)
    monkeypatch.setenv("CONVERTER_CHECK", "1")
    with pytest.raises(converter.CheckError, match=f"after '{name}'") as raised:
        converter.to_onnx(function, [(3, 4)])
    assert message in str(raised.value)


def test_faults_of_the_file_alone_are_named(cosine_for_sine, monkeypatch):
    divergence = converter.bisect(function, [X])
    assert divergence is not None and divergence.step == "file"
    monkeypatch.setenv("CONVERTER_CHECK", "1")
    with pytest.raises(converter.CheckError, match="after 'file'"):
        converter.to_onnx(function, [(3, 4)])


OTHER_SETTINGS = {
    "opset": 20,
    "attention_layout": "3d",
    "strict": True,
    "fold": False,
    "fuse": ["gelu"],
    "target": "standard",
}
"""By setting: a value that is not the default."""


def test_bisect_takes_every_setting_of_to_onnx(monkeypatch):
    """`bisect` uses all settings of `to_onnx`.

    Without a setting it would examine another conversion, such as one with folding.
    """
    assert {
        field.name for field in fields(passes.PassSettings) if field.init
    } == OTHER_SETTINGS.keys()
    received = []

    def record(graph, settings):
        received.append({name: getattr(settings, name) for name in OTHER_SETTINGS})
        return False

    table = (passes.Pass("note", "Record the settings.", record), *passes.PASSES)
    monkeypatch.setattr(passes, "PASSES", table)
    converter.to_onnx(function, [X], **OTHER_SETTINGS)
    assert converter.bisect(function, [X], **OTHER_SETTINGS) is None
    assert received == [OTHER_SETTINGS, OTHER_SETTINGS]


def test_eliminated_operations_exist_and_are_named_once():
    """Operations in `eliminates` exist, and each is named by one pass."""
    eliminated = [op.name for step in passes.distinct_passes() for op in step.eliminates]
    assert len(eliminated) == len(set(eliminated))
    assert {"einsum", "conv_general_dilated", "rotary", "stack"} <= set(eliminated)
