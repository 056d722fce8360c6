"""A pass with a wrong rule is named, whatever comes after it."""

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
    """Makes a pass do something else after what it does."""

    def plant(name, change):
        (step,) = (step for step in passes.distinct_passes() if step.name == name)

        def run(graph, settings):
            changed = step.run(graph, settings)
            change(graph)
            return changed

        wrong = replace(step, run=run)
        place = next(i for i, row in enumerate(passes.PASSES) if row is step)
        table = (*passes.PASSES[:place], wrong, *passes.PASSES[place + 1 :])
        monkeypatch.setattr(passes, "PASSES", table)

    return plant


def lost_bias(graph):
    sweep(graph, {ops.add: lambda node, editor: node.inputs[0]})


def another_shape(graph):
    for node in graph.nodes:
        if node.op is ops.reshape:
            node.params["shape"] = (4, 3)


def back_again(graph):
    """Writes an operation of which none should be left."""

    def stacked(node, editor):
        return editor.add(ops.stack, [editor.like(node, node.inputs)], (3, 4), "float32")

    sweep(graph, {ops.sin: stacked})


@pytest.mark.parametrize(
    ("name", "change", "what"),
    [
        ("recognise", lost_bias, "output 0 at [0, 0] is"),
        *(
            pytest.param(name, lost_bias, "output 0 at [0, 0] is", marks=pytest.mark.full)
            for name in ("canonicalize", "take", "weight folding", "weight programs")
        ),
        ("complete", another_shape, "does not evaluate"),
        pytest.param("attend", back_again, "there is a 'stack'", marks=pytest.mark.full),
        # Every operation that a pass says is gone is looked for after each later one.
        ("weight programs", back_again, "there is a 'stack'"),
    ],
)
def test_the_pass_with_a_wrong_rule_is_named(monkeypatch, planted, name, change, what):
    """When it is asked for, and where converting checks itself."""
    planted(name, change)
    found = converter.bisect(function, [X])
    assert found is not None and found.step == name
    assert what in str(found)
    monkeypatch.setenv("CONVERTER_CHECK", "1")
    with pytest.raises(converter.CheckError, match=f"after '{name}'") as raised:
        converter.to_onnx(function, [(3, 4)])
    assert what in str(raised.value)


def test_what_is_right_in_the_graph_and_wrong_in_the_file(monkeypatch):
    def wrong(model, target):
        next(n for n in model.graph if n.op_type == "Sin").op_type = "Cos"
        return model

    monkeypatch.setattr("converter.api.conversion.clean_up_model", wrong)
    found = converter.bisect(function, [X])
    assert found is not None and found.step == "file"
    monkeypatch.setenv("CONVERTER_CHECK", "1")
    with pytest.raises(converter.CheckError, match="after 'file'"):
        converter.to_onnx(function, [(3, 4)])


OTHERS = {
    "opset": 20,
    "attention_layout": "3d",
    "strict": True,
    "fold": False,
    "fuse": ["gelu"],
    "target": "standard",
}
"""For each setting one that is not the default."""


def test_bisect_takes_every_setting_of_to_onnx(monkeypatch):
    """One that it did not know was not bisected: files without folding were, with it."""
    assert {field.name for field in fields(passes.PassSettings) if field.init} == OTHERS.keys()
    seen = []

    def note(graph, settings):
        seen.append({name: getattr(settings, name) for name in OTHERS})
        return False

    table = (passes.Pass("note", "Notes what it is told.", note), *passes.PASSES)
    monkeypatch.setattr(passes, "PASSES", table)
    converter.to_onnx(function, [X], **OTHERS)
    assert converter.bisect(function, [X], **OTHERS) is None
    assert seen == [OTHERS, OTHERS]


def test_every_pass_keeps_what_earlier_ones_promised():
    """`eliminates` names operations that exist, and passes state it once."""
    stated = [op.name for step in passes.distinct_passes() for op in step.eliminates]
    assert len(stated) == len(set(stated))
    assert {"einsum", "conv_general_dilated", "rotary", "stack"} <= set(stated)
