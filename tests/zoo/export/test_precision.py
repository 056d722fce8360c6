"""Files of lower precision: what is cast, rounded or written in integers, and how near they are."""

import re
from collections import Counter

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic

import converter
from converter.model.verdict import LEVELS
from converter.opsets import is_older
from converter.verify.sessions import run, sessions
from tests.conformance import unused
from tests.runtimes.load import needs_quantized_23
from tests.seeded import NETWORKS, nano, native, values_of
from tests.synthetic import make_image
from zoo.architectures.builder import abstract
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.swin.swin_config import SwinConfig
from zoo.artifacts.descriptions import describe_limit
from zoo.common import runtime
from zoo.export.make import convert_model
from zoo.export.precision import CODECS, find_float16_overflows, write_lower_precision
from zoo.export.precisions import PRECISIONS
from zoo.export.quantise.activations import measure_means
from zoo.export.quantise.products import find_products, quantise
from zoo.export.quantise.smooth_quant import smooth_activations
from zoo.export.request import Signature
from zoo.export.verify import Sample, to_runnable, verify_file
from zoo.tasks.boxes import align_detections
from zoo.tasks.task import keep_outputs

FLOAT, HALF, BFLOAT = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16

MODELS = {name: nano(config) for name, config in NETWORKS.items() if name != "vit_digits"}

NUMBERS = [n for n in MODELS if MODELS[n].task.align_outputs is keep_outputs]
"""What gives numbers; tests of detection try what ranks the things that it finds."""

LOWER = tuple(precision for precision in PRECISIONS if precision != "fp32")

PRODUCTS = {"int8": "MatMulInteger", "q4": "MatMulNBits", "q4f16": "MatMulNBits"}
"""What the products with matrices become."""

FLOAT_PRODUCTS = ("MatMul", "Gemm", "Einsum")

ROUNDED_TO_4_BITS = 0.0066
"""Of the square of normally distributed numbers, what rounding each 32 of them takes."""

READERS = {"prenorm": ("attn.qkv",), "norm": ("mlp.fc1", "mlp.w1", "mlp.w2")}
"""What reads the norms of a block."""


def write(path, config, opset, values=None, target="onnxruntime"):
    """A float32 file of any image size."""
    export = convert_model(abstract(config), opset, Signature(None, None), target=target)
    export.save(path, values or values_of(config))
    return path


def worst(file, precision, source, image):
    """The least cosine of an output."""
    got = converter.run(to_runnable(file, precision), [image])
    want = converter.run(source, [image])
    return min(converter.compare(got[name], want[name]).cosine for name in want)


def pixels(config):
    """An image that is not square, and fits."""
    height, width = (64, 96) if isinstance(config, ConvNeXtConfig) else native(config)
    return make_image(0, height, width + 2 * config.stride)[None]


@pytest.mark.each("opset")
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("name", NUMBERS)
def test_every_network_in_every_precision(name, opset, tmp_path):
    config = MODELS[name]
    source = write(tmp_path / "source.onnx", config, opset)
    fused = converter.report(ir.load(source)).fused
    image = pixels(config)
    matrices = len([*find_products(ir.load(source).graph)])
    for precision in LOWER:
        file = tmp_path / f"{precision}.onnx"
        write_lower_precision(source, file, precision, [image])
        onnx.checker.check_model(file, full_check=True)
        model = ir.load(file)
        assert unused(model) == []
        assert {v.dtype for v in (*model.graph.inputs, *model.graph.outputs)} == {FLOAT}
        operators = Counter(node.op_type for node in model.graph)
        integers = operators[PRODUCTS[precision]] if precision in PRODUCTS else 0
        foreign = {"MatMulNBits": integers} if precision in ("q4", "q4f16") else {}
        assert converter.report(model).fused == fused + Counter(foreign)
        assert integers == (matrices if precision in PRODUCTS else 0)
        if precision in PRODUCTS:
            in_floats = (node for node in model.graph if node.op_type in FLOAT_PRODUCTS)
            assert not [node for node in in_floats if node.inputs[1].is_initializer()]
        assert worst(file, precision, source, image) >= least(precision, matrices, config)
        if precision in ("fp16", "bf16"):
            assert_half(model, HALF if precision == "fp16" else BFLOAT, opset)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(MODELS.keys() - {*NUMBERS}))
def test_every_detector_in_every_precision(name, tmp_path):
    """Files are valid and hold what they use; `test_detection.py` asks how near the boxes are."""
    source = write(tmp_path / "source.onnx", MODELS[name], 18)
    for precision in LOWER:
        file = tmp_path / f"{precision}.onnx"
        write_lower_precision(source, file, precision, [pixels(MODELS[name])])
        onnx.checker.check_model(file, full_check=True)
        assert unused(ir.load(file)) == []
        results = converter.run(to_runnable(file, precision), [pixels(MODELS[name])])
        assert all(np.isfinite(y).all() for y in results.values())


def test_keys_of_padding_stay_zero(tmp_path):
    """Where windows are filled up: what a product loses in the mean gave them a direction."""
    config = MODELS["swinv2_base_window12to16_192to256"]
    source = write(tmp_path / "source.onnx", config, 23)
    write_lower_precision(source, tmp_path / "int8.onnx", "int8", [pixels(config)])
    before, after = (
        value.const_value.numpy().reshape(3, -1)
        for file in (source, tmp_path / "int8.onnx")
        for name, value in ir.load(file).graph.initializers.items()
        if name.startswith("blocks.0.blocks.0.attn.q_bias")
    )
    assert [(row != 0).all() for row in before] == [True, False, True]
    assert [(row != 0).any() for row in after - before] == [True, False, True]


def least(precision, matrices, config):
    """The cosine that is asked of a network with a few dozens of channels.

    So few average nothing out: each product adds its own error. Swin V2 multiplies scores that are
    cosines by up to 100 besides.
    """
    rounded = 1 - matrices * ROUNDED_TO_4_BITS
    if precision == "int8" and isinstance(config, SwinConfig):
        return 0.98
    return rounded if precision in ("q4", "q4f16") else PRECISIONS[precision].limit.value


def assert_half(model, half, opset):
    """The matrices and kernels that pixels meet are in half precision."""
    conv = half != BFLOAT or opset >= 22
    weights = [v for v in model.graph.initializers.values() if v.dtype in (half, FLOAT)]
    assert {v.dtype for v in weights if len(v.shape) == 4} == {half if conv else FLOAT}
    name = re.compile(r"\.(qkv|kv|proj|pwconv\d|fc\d|w\d+)\.weight$")
    assert {v.dtype for v in weights if name.search(v.name) and len(v.shape) == 2} == {half}


def test_large_values_stay_in_float32(tmp_path):
    """A residual stream beyond 65,504 does not fit in float16, unless it is seen coming."""
    config = MODELS["dinov2_vits14"]
    values = dict(values_of(config))
    values["blocks.0.mlp.fc2.bias"] = values["blocks.0.mlp.fc2.bias"] + np.float32(3e5)
    values["blocks.0.ls2.gamma"] = np.ones_like(values["blocks.0.ls2.gamma"])
    source = write(tmp_path / "source.onnx", config, 18, values)
    image = pixels(config)
    names = find_float16_overflows(ir.load(source), [image])
    assert names
    naive = converter.lower_precision(ir.load(source), "float16")
    converter.save(naive, tmp_path / "naive.onnx")
    right = worst(tmp_path / "naive.onnx", "fp16", source, image) >= PRECISIONS["fp16"].limit.value
    assert right == is_older(runtime.RELEASE, "1.27")  # before that it computes in float32
    write_lower_precision(source, tmp_path / "half.onnx", "fp16", [image])
    assert worst(tmp_path / "half.onnx", "fp16", source, image) >= PRECISIONS["fp16"].limit.value
    assert {path.name for path in tmp_path.iterdir()} == {"source.onnx", "naive.onnx", "half.onnx"}


def test_bfloat16_is_rounded_after_every_node():
    """The emulation gives, bit for bit, what rounding by hand gives."""
    rng = np.random.default_rng(0)
    kernel, bias = rng.standard_normal((2, 5, 5), dtype=np.float32)
    x = rng.standard_normal((3, 5), dtype=np.float32)
    export = converter.to_onnx(lambda x: jnp.tanh(x @ kernel) * bias[0], [(3, 5)])
    low = converter.lower_precision(export.model, "bfloat16")

    def cut(array):
        return array.astype(ml_dtypes.bfloat16).astype(np.float32)

    (got,) = converter.run(converter.emulate_bfloat16(low), [x]).values()
    want = cut(cut(np.tanh(cut(cut(x) @ cut(kernel)))) * cut(bias[0]))
    np.testing.assert_allclose(got, want, rtol=2**-8, atol=0)
    assert np.array_equal(got, cut(got))
    with pytest.raises(converter.SpecError, match=r"float16 or bfloat16, received 'float8'"):
        converter.lower_precision(export.model, "float8")


def outliers(config, factor):
    """Weights of the same function with a few channels that are many times larger inside."""
    values = dict(values_of(config))
    rng = np.random.default_rng(0)
    for block in (f"blocks.{index}." for index in range(config.depth)):
        for norm, readers in READERS.items():
            channels = rng.choice(config.dim, 3, replace=False)
            factors = {f"{block}{norm}.{leaf}": factor for leaf in ("weight", "bias")}
            factors |= {f"{block}{reader}.weight": 1 / factor for reader in readers}
            for name in factors.keys() & values:
                values[name] = values[name].copy()
                values[name][..., channels] *= factors[name]
    return values


@pytest.mark.full
@pytest.mark.each()
@pytest.mark.parametrize("name", ["vit5_small", "dinov3_vit7b16", "dinov3_vits16"])
def test_outlier_channels(name, tmp_path):
    """What the quantiser alone cannot do: a channel hundreds of times larger than the others."""
    config = MODELS[name]
    source = write(tmp_path / "source.onnx", config, 18, outliers(config, 300))
    image = pixels(config)
    evened = ir.load(source)
    matrices = len([*find_products(evened.graph)])
    smooth_activations(evened)
    before, after = (converter.run(model, [image]) for model in (source, evened))
    for output in before:
        np.testing.assert_allclose(after[output], before[output], rtol=0, atol=2e-5)
    for precision in LOWER:
        file = tmp_path / f"{precision}.onnx"
        write_lower_precision(source, file, precision, [image])
        assert worst(file, precision, source, image) >= least(precision, matrices, config)
    options = {"op_types_to_quantize": ["MatMul"], "weight_type": QuantType.QInt8}
    quantize_dynamic(source, file, per_channel=True, **options)
    assert worst(file, "int8", source, image) < PRECISIONS["int8"].limit.value


def drawn(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.mark.parametrize("precision", ["int8", "q4"])
def test_products_with_integers(precision):
    """As far from what the integers stand for as rounding the activations explains.

    Two products have the same activations, one of them a bias. No block of 32 fits in 77 rows; a
    column of zeros has no largest number.
    """
    shapes = ((77, 33), (77, 5), (33,), (77,), (2, 4, 77))
    first, second, bias, mean, x = (drawn(seed, *shape) for seed, shape in enumerate(shapes))
    first[:, 3] = 0
    params = {"first": first, "second": second, "bias": bias}
    export = converter.to_onnx(
        lambda p, x: (x @ p["first"] + p["bias"], x @ p["second"]),
        [("n", 4, 77)],
        params=params,
        opset=23,
    )
    codec, model = CODECS[PRECISIONS[precision].integers], ir.from_proto(ir.to_proto(export.model))
    quantise(model, codec, {"first": mean, "second": mean})
    got = converter.run(model, [x]).values()
    step = np.ptp(x) / 255 if precision == "int8" else abs(x).max() / 127
    for (matrix, added), found in zip(((first, bias), (second, 0)), got, strict=True):
        rounded = codec.round_matrix(matrix, codec.scales(matrix))
        assert not rounded[:, ~matrix.any(0)].any()
        wanted = x @ rounded + added + mean @ (matrix - rounded)
        assert (abs(found - wanted) <= step / 2 * abs(rounded).sum(0) + 1e-4).all()
    names = set(model.graph.initializers)
    assert {"first", "first_scale", "second", "second_scale", "second_shift"} <= names
    assert "first_shift" not in names
    operators = [node.op_type for node in model.graph]
    # What both multiply is quantised once.
    assert operators.count("DynamicQuantizeLinear") == (precision == "int8")


@pytest.mark.parametrize("opset", [17, 18])
def test_means_of_activations(opset):
    x, params = drawn(1, 1, 3, 4, 6), {"matrix": drawn(0, 6, 5)}
    export = converter.to_onnx(lambda p, x: x @ p["matrix"], [x], params=params, opset=opset)
    (found,) = measure_means(export.model, [x]).values()
    mean = x.mean((0, 1, 2))
    np.testing.assert_allclose(found, (mean + mean[::-1]) / 2, atol=1e-6)


@pytest.fixture
def halves(tmp_path):
    """A product by four bits between float16 nodes that a CPU runs in float32, and its sample."""
    params = {"matrix": drawn(0, 64, 48), "bias": drawn(1, 48)}
    x = drawn(2, 5, 1, 2, 64)

    def fn(p, x):
        return {"y": (x * x) @ p["matrix"] + p["bias"]}

    whole, file = tmp_path / "whole.onnx", tmp_path / "halves.onnx"
    converter.to_onnx(fn, [x], params=params, path=whole, opset=18)
    write_lower_precision(whole, file, "q4f16", [x])
    return file, x, fn(params, x)["y"]


def test_four_bits_in_float16_at_every_level(halves):
    """ONNX Runtime widens the scales, which are then no constants to a kernel in integers."""
    file, x, wanted = halves
    for level, live in sessions(file):
        (got,) = run(live, [x]).values()
        assert converter.compare(got, np.asarray(wanted)).cosine > 0.99, level
    (node,) = (node for node in ir.load(file).graph if node.op_type == "MatMulNBits")
    assert "accuracy_level" not in node.attributes


@pytest.mark.parametrize("level", ["disabled", "basic", "extended", "all"])
def test_a_file_is_verified_at_every_level(halves, level, monkeypatch):
    file, x, wanted = halves
    sample = Sample({"pixel_values": x}, {"y": wanted})
    assert verify_file(file, [sample], "q4f16").passed
    opened = runtime.session

    def wrong(model, provider=runtime.CPU, at="all"):
        right = opened(model, provider, at)
        return opened(negated(model), provider, at) if at == level else right

    monkeypatch.setattr(runtime, "session", wrong)
    found = verify_file(file, [sample], "q4f16")
    assert not found.passed and {each.level for each in found.comparisons} == {level}
    assert found.levels == LEVELS


@pytest.mark.parametrize(
    ("change", "excused", "is_right"),
    [
        (lambda rows: rows, 0, True),
        (lambda rows: rows[[1, 0, *range(2, 100)]], 0.02, True),
        (lambda rows: rows[[1, 0, *range(2, 98), 99, 98]], 0.02, False),
        (lambda rows: rows[[*range(1, 8), 0, *range(8, 100)]], 0.08, False),
        (lambda rows: rows + np.float32(1e-2) * (np.arange(100) == 50)[:, None], 0, False),
        (lambda rows: np.full_like(rows, np.nan), 0, False),
    ],
)
def test_rows_that_change_places_are_no_error(change, excused, is_right, tmp_path):
    """Where JAX itself has them in either order, and they are few; what it has nowhere is an error,
    and no number."""
    wanted = np.arange(200, dtype=np.float32).reshape(1, 100, 2)
    x = np.zeros((1, 3, 4, 4), np.float32)
    orders = ([1, 0, *range(2, 100)], [*range(1, 8), 0, *range(8, 100)])
    moved = tuple({"y": wanted[:, order]} for order in orders)
    sample = Sample(
        {"pixel_values": x}, {"y": wanted}, align_outputs=align_detections, perturbed_outputs=moved
    )
    given = change(wanted[0])[None]
    converter.to_onnx(lambda x: {"y": given + 0 * x.sum()}, [x]).save(tmp_path / "x.onnx")
    verification = verify_file(tmp_path / "x.onnx", [sample])
    assert verification.passed == is_right
    assert verification.comparisons[0].excused == pytest.approx(excused)
    assert ("as for inputs moved" in describe_limit(verification)) == bool(excused)


def negated(file):
    """The model with its output turned round."""
    model = ir.load(file)
    (y,) = model.graph.outputs
    (minus,) = (node := ir.node("Neg", [y])).outputs
    minus.name, minus.type, minus.shape = "minus", y.type, y.shape
    model.graph.append(node)
    model.graph.outputs[0] = minus
    return model


@needs_quantized_23
@pytest.mark.each("opset")
@pytest.mark.parametrize("opset", [17, 23])
@pytest.mark.parametrize("name", MODELS)
def test_scales_by_row_depend_on_no_other_image(name, opset, tmp_path):
    """Beside a picture a thousand times as bright, one gets what it gets alone, and as exactly as
    by the tensor; with scales by tensor it does not."""
    config = MODELS[name]
    source = write(tmp_path / "source.onnx", config, opset)
    image = pixels(config)
    pair = np.concatenate([image, 1000 * make_image(1, *image.shape[2:])[None]])
    moved, exact = {}, {}
    for scales in ("row", "tensor"):
        file = tmp_path / f"{scales}.onnx"
        write_lower_precision(source, file, "int8", [image], scales=scales)
        alone, beside = (converter.run(file, [batch]) for batch in (image, pair))
        moved[scales] = max(float(abs(alone[n] - beside[n][:1]).max()) for n in alone)
        exact[scales] = worst(file, "int8", source, image)
    assert exact["row"] > min(PRECISIONS["int8"].limit.value, exact["tensor"] - 0.01)
    # Sums of floats may be of another order where a product has more rows.
    assert moved["row"] < 1e-4 < moved["tensor"]


@needs_quantized_23
def test_a_row_of_zeros_stays_one(tmp_path):
    export = converter.to_onnx(
        lambda params, x: x @ params, [("n", 4)], params=np.eye(4, dtype=np.float32)
    )
    export.save(tmp_path / "source.onnx")
    rows = np.array([[0, 0, 0, 0], [1e-3, -2e-3, 0, 1e-4], [5, -6, 7, 1e6]], np.float32)
    write_lower_precision(
        tmp_path / "source.onnx", tmp_path / "int8.onnx", "int8", [rows], scales="row"
    )
    (got,) = converter.run(tmp_path / "int8.onnx", [rows]).values()
    assert (got[0] == got[0][0]).all() and abs(got[0]).max() < 1e-2
    step = abs(rows).max(1, keepdims=True) / 127
    assert (abs(got - rows - got[0]) <= step).all()
