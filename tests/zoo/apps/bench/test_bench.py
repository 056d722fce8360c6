"""`zoo bench`: counted products, inputs, rounds, and the parts of the record. No durations are
compared."""

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModel

from zoo import info
from zoo.apps.bench.measure import EMPTY_CALL, compute_product_times, product_tasks, torch_task
from zoo.architectures.builder import abstract
from zoo.artifacts.measured import is_busy
from zoo.checkpoints.settings.library_configs import transformers_config
from zoo.common.errors import ZooError
from zoo.export.make import convert_model
from zoo.export.request import Signature
from zoo.export.timing.footprint import measure_footprint
from zoo.export.timing.rounds import measure_interleaved, watch_other_programs
from zoo.export.timing.timed_inputs import TimedInput, draw_inputs, resolve_timed_inputs
from zoo.export.timing.timed_products import Products, TimedProduct, timed_products

PIXELS = [TimedInput("pixel_values", "float32", (2, 3, 160, 224))]
TOKENS, WIDTH, HIDDEN = 145, 384, 1536


def parse_model(inputs, nodes, **weights):
    """Return a model from ONNX's textual syntax, with these initializers."""
    opsets = '["": 23, "com.microsoft": 1]'
    text = f"<ir_version: 10, opset_import: {opsets}> g ({inputs}) => (y) {{ {nodes} }}"
    model = onnx.parser.parse_model(text)
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    model.graph.initializer.extend(tensors)
    return model


def count_products(proto, **shapes):
    """Return the products of a model for inputs of these shapes."""
    specs = [TimedInput(name, "float32", shape) for name, shape in shapes.items()]
    return timed_products(ir.from_proto(proto), specs)


F32 = np.float32
ONE, TWO = "y = MatMul(x, w)", "h = MatMul(x, w) y = MatMul(h, w)"


@pytest.mark.full
@pytest.mark.parametrize("opset", [pytest.param(18, marks=pytest.mark.full), 23])
def test_products_of_vits16(opset):
    """The products are those of the formulas, with as many operations as torch counts.

    torch counts them in transformers' model. Attention is decomposed, or one operator.
    """
    model = abstract(info("dinov3_vits16").config)
    vits16 = timed_products(convert_model(model, opset, Signature(None, None)).model, PIXELS)
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
    counts = {(p.op, p.left, p.right, p.constant): n for p, n in vits16.counts.items()}
    assert counts == by_hand and not vits16.uncounted
    settings = transformers_config(info("dinov3_vits16").config, (), key_bias=False)
    model_type = settings.pop("model_type")
    config = AutoConfig.for_model(model_type, **settings, attn_implementation="eager")
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        AutoModel.from_config(config)(torch.empty(PIXELS[0].shape))
    assert vits16.flops == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_a_depthwise_convolution():
    node = "y = Conv<group = 6, pads = [3, 3, 3, 3]>(x, k)"
    proto = parse_model("float[n, 6, h, w] x", node, k=np.zeros((6, 1, 7, 7), F32))
    (product,) = count_products(proto, x=(2, 6, 20, 12)).counts
    assert dict(product.attributes) == {"group": 6, "pads": (3, 3, 3, 3)}
    assert product.flops == 2 * (2 * 6 * 20 * 12) * 49


ONE_PRODUCT = [TimedProduct("MatMul", (4, 3), (3, 5), True)]
VECTOR = [TimedProduct("MatMul", (4, 3), (3, 1), False)]
SHARED = [
    TimedProduct("MatMul", (3, 4, 7, 8), (3, 4, 8, 9), False),
    TimedProduct("MatMul", (3, 4, 7, 9), (3, 4, 9, 8), False),
]
QUANTISED = "q, s, z = DynamicQuantizeLinear(x) y = MatMulInteger(q, w, z)"
GROUPED = "y = Attention<q_num_heads = 4, kv_num_heads = 2>(q, k, k)"


@pytest.mark.parametrize(
    ("nodes", "weights", "shapes", "products"),
    [
        ("y = Gemm<transB = 1>(x, w)", {"w": np.zeros((5, 3), F32)}, {"x": (4, 3)}, ONE_PRODUCT),
        (QUANTISED, {"w": np.zeros((3, 5), np.int8)}, {"x": (4, 3)}, ONE_PRODUCT),
        (
            "v = Transpose(w) y = MatMul(x, v)",
            {"w": np.zeros((5, 3), F32)},
            {"x": (4, 3)},
            ONE_PRODUCT,
        ),
        (ONE, {}, {"x": (4, 3), "w": (3,)}, VECTOR),
        (GROUPED, {}, {"q": (3, 7, 32), "k": (3, 9, 16)}, SHARED),
    ],
    ids=["transposed", "quantised", "behind a node", "a vector", "shared heads"],
)
def test_products_of_other_operators(nodes, weights, shapes, products):
    inputs = ", ".join(f"float{list(shape)} {name}" for name, shape in shapes.items())
    products_found = count_products(parse_model(inputs, nodes, **weights), **shapes)
    assert products_found.counts == {product: 1 for product in products}


def test_operators_that_are_not_counted_are_listed():
    nodes = """
        a = com.microsoft.FusedMatMul<transB = 1>(x, x) b = Einsum<equation="ij,kj->ik">(x, x)
        i = NonZero(x) f = Cast<to = 1>(i) y = MatMul(x, f)"""
    result = count_products(parse_model("float[n, 2] x", nodes), x=(2, 2))
    assert result.uncounted == {"FusedMatMul": 1, "Einsum": 1, "MatMul": 1}
    assert result.counts == Counter()


def test_the_floor_is_a_sum_of_the_fastest_runs():
    a = TimedProduct("MatMul", (2, 3), (3, 4), True)
    b = TimedProduct("MatMul", (1, 2, 3), (1, 3, 2), False)
    products = Products(Counter({a: 3, b: 2}))
    measured = measure_interleaved(product_tasks(products, 1), rounds=2)
    assert {key: len(times) for key, times in measured.items()} == {EMPTY_CALL: 2, a: 2, b: 2}
    times = {EMPTY_CALL: [0.25, 0.5], a: [2.25, 1.25], b: [0.75, 3.0]}
    assert compute_product_times(products, times).total == 3 * 1.0 + 2 * 0.5


def test_rounds():
    """Each task runs once a round, in changing order. Two rounds of warming up are not measured."""
    calls, names = [], "abcd"
    times = measure_interleaved({n: (lambda n=n: calls.append(n)) for n in names}, rounds=9)
    assert {name: len(durations) for name, durations in times.items()} == dict.fromkeys(names, 9)
    rounds = ["".join(calls[i : i + 4]) for i in range(0, len(calls), 4)]
    assert len(rounds) == 11
    assert {"".join(sorted(order)) for order in rounds} == {names}
    assert len({order[0] for order in rounds}) > 2
    # The clock advances by a second at every reading.
    ticks = iter(range(100))
    assert measure_interleaved({"a": calls.clear}, 3, lambda: float(next(ticks))) == {
        "a": [1.0] * 3
    }


@pytest.mark.parametrize(
    ("type", "shape", "batch_and_size", "expected"),
    [
        ("float", ["b", 3, "h", "w"], (None, None), (1, 3, 224, 224)),
        ("float", ["b", 3, "h", "w"], (4, (32, 48)), (4, 3, 32, 48)),
        ("float", [None, 3, 64, "w"], (2, None, (64, 96)), (2, 3, 64, 96)),
        ("float16", [1, 3, 8, 8], (1, (8, 8)), (1, 3, 8, 8)),
        ("uint8", ["b", "h", "w", 3], (2, (30, 40)), (2, 30, 40, 3)),
        ("int64", ["b", 7], (3, (30, 40)), (3, 7)),
        ("float", [], (3, None), ()),
        ("float", [1, 3, "h", "w"], (2, None), "`batch`"),
        ("float", ["b", 3, 224, 224], (None, (224, 192)), "192 was asked"),
        ("int64", ["b", "sequence"], (None, None), "leaves sequence open"),
        ("float", ["b", 0, "h", "w"], (None, None), "open"),
        ("string", ["b"], (None, None), "tensor\\(string\\)"),
    ],
)
def test_open_dimensions_are_fixed(type, shape, batch_and_size, expected):
    declared = SimpleNamespace(name="x", type=f"tensor({type})", shape=shape)
    if isinstance(expected, str):
        with pytest.raises(ZooError, match=expected):
            resolve_timed_inputs("f.onnx", [declared], *batch_and_size)
        return
    (spec,) = resolve_timed_inputs("f.onnx", [declared], *batch_and_size)
    assert spec.shape == expected
    first, second = draw_inputs([spec])["x"], draw_inputs([spec])["x"]
    assert (first.dtype, first.shape) == (spec.dtype, expected)
    np.testing.assert_array_equal(first, second)


@pytest.fixture
def files(tmp_path):
    """A file with one product of 4 MB of weights, and a file with two of them."""
    w = np.random.default_rng(0).standard_normal((1024, 1024)).astype(F32)
    for name, nodes in (("one", ONE), ("two", TWO)):
        onnx.save(parse_model("float[n, 1024] x", nodes, w=w), tmp_path / f"{name}.onnx")
    return [tmp_path / "one.onnx", tmp_path / "two.onnx"]


def test_bench_command(files, zoo):
    record = zoo.json("bench", *files, files[0], "--batch", 5, "--rounds", 3)
    names = [Path(row["name"]).name for row in record["files"]]
    assert names == ["one.onnx", "two.onnx", "one.onnx"]
    assert record["files"][0]["p50_to_first"] == 1
    for row in record["files"]:
        assert row["inputs"] == [{"name": "x", "dtype": "float32", "shape": [5, 1024]}]
        assert len(row["times_ms"]) == 3
        assert row["fastest_ms"] == min(row["times_ms"]) <= row["p50_ms"] <= row["p95_ms"]
        assert row["load_s"] > 0
    (shape,) = record["products"]["shapes"]
    assert (shape["count"], shape["flops"]) == (1, 2 * 5 * 1024**2)
    assert (record["threads"], record["rounds"]) == (1, 3)
    printed = zoo("bench", files[0], "--rounds", 1).out
    for words in ("one.onnx", "p50 ms", "products of the first file: 1 of 1 shapes"):
        assert words in printed


def test_footprint(tmp_path):
    """The footprint includes the 40 MB of weights."""
    proto = parse_model("float[1, 8192] x", ONE, w=np.ones((1 << 13, 5 << 8), F32))
    onnx.save(proto, tmp_path / "large.onnx")
    footprint = measure_footprint(
        tmp_path / "large.onnx", [TimedInput("x", "float32", (1, 1 << 13))], 1
    )
    assert 40e6 < footprint.resident < 200e6
    assert footprint.peak is None or footprint.resident <= footprint.peak + 1e6 < 300e6


def test_against_torch(monkeypatch):
    before = torch.get_num_threads()
    try:
        task = torch_task(
            "dinov3_vits16", [TimedInput("pixel_values", "float32", (2, 3, 32, 48))], 1
        )
        assert torch.get_num_threads() == 1
        assert task().last_hidden_state.shape == (2, 5 + 6, 384)
    finally:
        torch.set_num_threads(before)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ZooError, match="needs PyTorch"):
        torch_task("dinov3_vits16", PIXELS, 1)


def test_other_busy_programs_are_noticed(monkeypatch, tmp_path):
    """Idle and waiting time is not counted as work. Without numbers of the system the result is
    None."""
    stat = tmp_path / "stat"
    monkeypatch.setattr("zoo.export.timing.rounds.STAT", stat)
    busy = []
    for later in ((1000, 0, 0, 0, 0), (1000, 0, 0, 90_000, 90_000), (90_000, 0, 0, 0, 0)):
        stat.write_text("cpu  1000 0 0 0 0 0 0 0 0 0\ncpu0 1 0 0\n")
        count_other_cores = watch_other_programs()
        stat.write_text(f"cpu  {' '.join(map(str, later))} 0 0 0 0 0\ncpu0 1 0 0\n")
        busy.append(is_busy(count_other_cores()))
    assert busy == [False, False, True]
    stat.write_text("cpu  0 0 0 0 0 0 0 0 0 0\n")
    assert watch_other_programs()() is None and not is_busy(None)
    stat.unlink()
    assert watch_other_programs()() is None
    stat.write_text("cpu  1000 0 0 0 0 0 0 0 0 0\n")
    assert watch_other_programs()() is not None
    monkeypatch.setattr(sys, "platform", "win32")
    assert watch_other_programs()() is None
