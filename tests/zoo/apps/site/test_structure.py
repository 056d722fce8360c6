"""The structure of a file: a repeated block is listed once with its number of repetitions."""

from collections import Counter

import onnx
import pytest
from onnx.helper import make_graph, make_model, make_node

from zoo.apps.site.structure import read_structure

BLOCK = ["LayerNormalization", "Attention", "MatMul", "Add"]
HEAD = ["Gemm", "Softmax"]

FILES = {
    "nothing repeats": (["Conv", "Shape", *HEAD], [(1, ["Conv", "Shape", *HEAD])]),
    "no marks": (["Add", "Shape"], [(1, ["Add", "Shape"])]),
    "blocks": (
        ["Conv", *3 * BLOCK, *HEAD],
        [(1, ["Conv"]), (3, BLOCK), (1, HEAD)],
    ),
    "two kinds of blocks": (
        [*4 * BLOCK, *2 * ["Conv", "Relu", "Resize"]],
        [(4, BLOCK), (2, ["Conv", "Relu", "Resize"])],
    ),
    "two of a kind are no block": (3 * ["Conv", "Relu"], [(1, 3 * ["Conv", "Relu"])]),
}
"""The operators of a file, and the expected parts with the times that they repeat."""


@pytest.mark.parametrize("name", FILES)
def test_structure(name, tmp_path):
    operators, expected = FILES[name]
    steps = enumerate(operators)
    nodes = [make_node(kind, [f"v{i}"], [f"v{i + 1}"]) for i, kind in steps]
    onnx.save(make_model(make_graph(nodes, "g", [], [])), tmp_path / "g.onnx")
    parts = [(part.times, part.operators) for part in read_structure(tmp_path / "g.onnx")]
    assert parts == [(times, Counter(part)) for times, part in expected]
