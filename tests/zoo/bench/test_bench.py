"""`zoo bench`: what is counted, what is fed, and that the answer has its parts. No timings."""

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import TensorProto, helper
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModel

from zoo import info, runtime
from zoo.artifacts.build.speed import speeds
from zoo.bench.against import torch_task
from zoo.bench.floor import CALL, floor, tasks
from zoo.bench.footprint import footprint
from zoo.bench.inputs import BenchOptions, Spec, draw_inputs, settle_inputs
from zoo.bench.rounds import interleave
from zoo.bench.timed_products import Products, TimedProduct, timed_products
from zoo.checkpoints.settings.huggingface import transformers_config
from zoo.errors import ZooError
from zoo.export.make import convert_model
from zoo.export.request import Signature
from zoo.models.builder import abstract

PIXELS = [Spec("pixel_values", "float32", (2, 3, 160, 224))]
TOKENS, WIDTH, HIDDEN = 145, 384, 1536


def graph(*nodes, inputs, weights=None):
    """A model of a few nodes, each given as `make_node` takes it, and of inputs in float32."""
    content = helper.make_graph(
        [helper.make_node(*node[:3], **(node[3] if node[3:] else {})) for node in nodes],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in inputs.items()],
        [onnx.ValueInfoProto(name="y")],
        [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(content, opset_imports=opsets, ir_version=10)


def product(name="x", to="y"):
    return ("MatMul", [name, "w"], [to])


def count(proto, **shapes):
    specs = [Spec(name, "float32", shape) for name, shape in shapes.items()]
    return timed_products(ir.from_proto(proto), specs)


F32 = np.float32


@pytest.fixture(scope="module", params=[pytest.param(18, marks=pytest.mark.full), 23])
def vits16(request):
    """The products of DINOv3 ViT-S/16, decomposed and with fused attention; no weights needed."""
    model = abstract(info("dinov3_vits16").config)
    return timed_products(convert_model(model, request.param, Signature(None, None)).model, PIXELS)


def test_products_of_vits16(vits16):
    """By hand, and as many operations as torch counts while transformers' model runs."""
    rows, head = (2, TOKENS, WIDTH), (2, 6, TOKENS)
    by_hand = {
        ("Conv", (2, 3, 160, 224), (WIDTH, 3, 16, 16), True): 1,
        ("MatMul", rows, (WIDTH, 3 * WIDTH), True): 12,
        ("MatMul", (*head, 64), (2, 6, 64, TOKENS), False): 12,
        ("MatMul", (*head, TOKENS), (*head, 64), False): 12,
        ("MatMul", rows, (WIDTH, WIDTH), True): 12,
        ("MatMul", rows, (WIDTH, HIDDEN), True): 12,
        ("MatMul", (2, TOKENS, HIDDEN), (HIDDEN, WIDTH), True): 12,
    }
    found = {(p.op, p.left, p.right, p.constant): n for p, n in vits16.counts.items()}
    assert found == by_hand and not vits16.uncounted
    settings = transformers_config(info("dinov3_vits16").config, (), key_bias=False)
    kind = settings.pop("model_type")
    config = AutoConfig.for_model(kind, **settings, attn_implementation="eager")
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        AutoModel.from_config(config)(torch.empty(PIXELS[0].shape))
    assert vits16.flops == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_a_depthwise_convolution():
    weights = {"w": np.zeros((6, 1, 7, 7), F32)}
    node = ("Conv", ["x", "w"], ["y"], {"group": 6, "pads": [3] * 4})
    found = count(graph(node, inputs={"x": ["n", 6, "h", "w"]}, weights=weights), x=(2, 6, 20, 12))
    (product,) = found.counts
    assert dict(product.attributes) == {"group": 6, "pads": (3, 3, 3, 3)}
    assert product.flops == 2 * (2 * 6 * 20 * 12) * 49


TURNED = [TimedProduct("MatMul", (4, 3), (3, 5), True)]
VECTOR = [TimedProduct("MatMul", (4, 3), (3, 1), False)]
SHARED = [
    TimedProduct("MatMul", (3, 4, 7, 8), (3, 4, 8, 9), False),
    TimedProduct("MatMul", (3, 4, 7, 9), (3, 4, 9, 8), False),
]
QUANTISED = (
    ("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
    ("MatMulInteger", ["q", "w", "z"], ["y"]),
)
TRANSPOSED = ("Gemm", ["x", "w"], ["y"], {"transB": 1})
GROUPED = ("Attention", ["q", "k", "k"], ["y"], {"q_num_heads": 4, "kv_num_heads": 2})


@pytest.mark.parametrize(
    ("nodes", "weights", "shapes", "products"),
    [
        ([TRANSPOSED], {"w": np.zeros((5, 3), F32)}, {"x": (4, 3)}, TURNED),
        (QUANTISED, {"w": np.zeros((3, 5), np.int8)}, {"x": (4, 3)}, TURNED),
        ([product()], {}, {"x": (4, 3), "w": (3,)}, VECTOR),
        ([GROUPED], {}, {"q": (3, 7, 32), "k": (3, 9, 16)}, SHARED),
    ],
    ids=["transposed", "quantised", "a vector", "shared heads"],
)
def test_other_operators(nodes, weights, shapes, products):
    proto = graph(*nodes, inputs=shapes, weights=weights)
    assert count(proto, **shapes).counts == {product: 1 for product in products}


def test_what_is_not_counted_is_told():
    proto = graph(
        ("FusedMatMul", ["x", "x"], ["a"], {"domain": "com.microsoft", "transB": 1}),
        ("Einsum", ["x", "x"], ["b"], {"equation": "ij,kj->ik"}),
        ("NonZero", ["x"], ["i"]),
        ("Cast", ["i"], ["f"], {"to": TensorProto.FLOAT}),
        ("MatMul", ["x", "f"], ["y"]),
        inputs={"x": ["n", 2]},
    )
    found = count(proto, x=(2, 2))
    assert found.uncounted == {"FusedMatMul": 1, "Einsum": 1, "MatMul": 1}
    assert found.counts == Counter()


def test_floor_is_a_sum_of_the_fastest_runs():
    a, b = (
        TimedProduct("MatMul", (2, 3), (3, 4), True),
        TimedProduct("MatMul", (1, 2, 3), (1, 3, 2), False),
    )
    found = Products(Counter({a: 3, b: 2}))
    timed = interleave(tasks(found, 1), rounds=2)
    assert {key: len(times) for key, times in timed.items()} == {CALL: 2, a: 2, b: 2}
    times = {CALL: [0.25, 0.5], a: [2.25, 1.25], b: [0.75, 3.0]}
    assert floor(found, times).total == 3 * 1.0 + 2 * 0.5


def test_rounds():
    """Each runs once a round, in changing order, and warming up is not counted."""
    calls = []
    names = "abcd"
    times = interleave({n: (lambda n=n: calls.append(n)) for n in names}, rounds=9)
    assert {name: len(found) for name, found in times.items()} == dict.fromkeys(names, 9)
    rounds = ["".join(calls[i : i + 4]) for i in range(0, len(calls), 4)]
    assert len(rounds) == 11
    assert {"".join(sorted(each)) for each in rounds} == {names}
    assert len({each[0] for each in rounds}) > 2
    # Of a clock that goes a second further each time that somebody looks.
    ticks = iter(range(100))
    assert interleave({"a": calls.clear}, 3, lambda: float(next(ticks))) == {"a": [1.0] * 3}


@pytest.mark.parametrize(
    ("type", "shape", "wanted", "found"),
    [
        ("float", ["b", 3, "h", "w"], (BenchOptions(None, None),), (1, 3, 224, 224)),
        ("float", ["b", 3, "h", "w"], (BenchOptions(4, (32, 48)),), (4, 3, 32, 48)),
        ("float", [None, 3, 64, "w"], (BenchOptions(2), (64, 96)), (2, 3, 64, 96)),
        ("float16", [1, 3, 8, 8], (BenchOptions(1, (8, 8)),), (1, 3, 8, 8)),
        ("uint8", ["b", "h", "w", 3], (BenchOptions(2, (30, 40)),), (2, 30, 40, 3)),
        ("int64", ["b", 7], (BenchOptions(3, (30, 40)),), (3, 7)),
        ("float", [], (BenchOptions(3, None),), ()),
        ("float", [1, 3, "h", "w"], (BenchOptions(2, None),), "--batch"),
        ("float", ["b", 3, 224, 224], (BenchOptions(None, (224, 192)),), "192 was asked"),
        ("int64", ["b", "sequence"], (BenchOptions(None, None),), "leaves sequence open"),
        ("float", ["b", 0, "h", "w"], (BenchOptions(None, None),), "open"),
        ("string", ["b"], (BenchOptions(None, None),), "tensor\\(string\\)"),
    ],
)
def test_dimensions_are_settled(type, shape, wanted, found):
    declared = SimpleNamespace(name="x", type=f"tensor({type})", shape=shape)
    if isinstance(found, str):
        with pytest.raises(ZooError, match=found):
            settle_inputs("f.onnx", [declared], *wanted)
        return
    (spec,) = settle_inputs("f.onnx", [declared], *wanted)
    assert spec.shape == found
    one, other = draw_inputs([spec])["x"], draw_inputs([spec])["x"]
    assert one.dtype == spec.dtype
    assert one.shape == found
    np.testing.assert_array_equal(one, other)


@pytest.fixture
def files(tmp_path):
    """A product with 4 MB of weights, and two of them."""
    w = np.random.default_rng(0).standard_normal((1024, 1024)).astype(F32)
    for name, nodes in (("one", [product()]), ("two", [product(to="h"), product("h")])):
        proto = graph(*nodes, inputs={"x": ["n", 1024]}, weights={"w": w})
        onnx.save(proto, tmp_path / f"{name}.onnx")
    return [tmp_path / "one.onnx", tmp_path / "two.onnx"]


def test_the_command(files, zoo):
    found = zoo.json("bench", *files, files[0], "--batch", 5, "--rounds", 3)
    names = [Path(row["name"]).name for row in found["files"]]
    assert names == ["one.onnx", "two.onnx", "one.onnx"]
    assert found["files"][0]["p50_to_first"] == 1
    for row in found["files"]:
        assert row["inputs"] == [{"name": "x", "dtype": "float32", "shape": [5, 1024]}]
        assert len(row["times_ms"]) == 3
        assert row["fastest_ms"] == min(row["times_ms"]) <= row["p50_ms"] <= row["p95_ms"]
        assert row["load_s"] > 0
    (shape,) = found["products"]["shapes"]
    assert (shape["count"], shape["flops"]) == (1, 2 * 5 * 1024**2)
    assert (found["threads"], found["rounds"]) == (1, 3)
    told = zoo("bench", files[0], "--rounds", 1).out
    for words in ("one.onnx", "p50 ms", "products of the first file: 1 of 1 shapes"):
        assert words in told


def test_footprint(tmp_path):
    """40 MB of weights stay in memory."""
    w = {"w": np.ones((1 << 13, 5 << 8), F32)}
    onnx.save(graph(product(), inputs={"x": [1, 1 << 13]}, weights=w), tmp_path / "large.onnx")
    found = footprint(tmp_path / "large.onnx", [Spec("x", "float32", (1, 1 << 13))], 1)
    assert 40e6 < found.resident < 200e6
    assert found.peak is None or found.resident <= found.peak + 1e6 < 300e6


def test_against_torch(monkeypatch):
    before = torch.get_num_threads()
    try:
        task = torch_task("dinov3_vits16", [Spec("pixel_values", "float32", (2, 3, 32, 48))], 1)
        assert torch.get_num_threads() == 1
        assert task().last_hidden_state.shape == (2, 5 + 6, 384)
    finally:
        torch.set_num_threads(before)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ZooError, match="needs PyTorch"):
        torch_task("dinov3_vits16", PIXELS, 1)


def test_files_of_a_folder(files):
    """All are run as often, and compared with the one in float32."""
    sessions = {"fp32": runtime.session(files[0])}
    fed = np.zeros((1, 1024), np.float32)
    found = speeds({"fused": files[1], "fp32": files[0]}, fed, sessions)
    assert list(found.variants) == ["fused", "fp32"]
    assert found.variants["fp32"].ratio == 1.0
    assert found.input == (1, 1024) and all(each.p50_ms > 0 for each in found.variants.values())
