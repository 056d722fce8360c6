"""Files of lower precision: dtypes, operators, and outputs compared with the float32 file."""

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
from converter.verify.sessions import iter_sessions, run
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
"""Networks whose outputs are compared element by element. Detectors rank what they find, and are
compared in `test_detection.py`."""

LOWER = tuple(precision for precision in PRECISIONS if precision != "fp32")

PRODUCTS = {"int8": "MatMulInteger", "q4": "MatMulNBits", "q4f16": "MatMulNBits"}
"""The operator that multiplies matrices of weights in each precision of integers."""

FLOAT_PRODUCTS = ("MatMul", "Gemm", "Einsum")

ROUNDED_TO_4_BITS = 0.0066
"""The relative squared error of rounding normal numbers to 4 bits, in blocks of 32."""

READERS = {"prenorm": ("attn.qkv",), "norm": ("mlp.fc1", "mlp.w1", "mlp.w2")}
"""The matrices that read each norm of a block."""


def write(path, config, opset, values=None, target="onnxruntime"):
    """Write a float32 file with open image sizes. Return its path."""
    export = convert_model(abstract(config), opset, Signature(None, None), target=target)
    export.save(path, values or values_of(config))
    return path


def worst_cosine(file, precision, source, image):
    """Return the smallest cosine between the outputs of a file and of its float32 source."""
    outputs = converter.run(to_runnable(file, precision), [image])
    expected = converter.run(source, [image])
    return min(converter.compare(outputs[name], expected[name]).cosine for name in expected)


def pixels(config):
    """Return a batch of one image that is not square and that the network takes."""
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
        assert worst_cosine(file, precision, source, image) >= minimum_cosine(
            precision, matrices, config
        )
        if precision in ("fp16", "bf16"):
            assert_half(model, HALF if precision == "fp16" else BFLOAT, opset)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(MODELS.keys() - {*NUMBERS}))
def test_every_detector_in_every_precision(name, tmp_path):
    """Files are valid, hold nothing unused and give finite numbers.

    `test_detection.py` compares their boxes.
    """
    source = write(tmp_path / "source.onnx", MODELS[name], 18)
    for precision in LOWER:
        file = tmp_path / f"{precision}.onnx"
        write_lower_precision(source, file, precision, [pixels(MODELS[name])])
        onnx.checker.check_model(file, full_check=True)
        assert unused(ir.load(file)) == []
        results = converter.run(to_runnable(file, precision), [pixels(MODELS[name])])
        assert all(np.isfinite(y).all() for y in results.values())


def test_biases_of_padded_keys_stay_zero(tmp_path):
    """In padded windows, the correction of a product's mean once gave the zero keys a direction."""
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


def minimum_cosine(precision, matrices, config):
    """Return the smallest cosine that is accepted for a network with a few dozen channels.

    In so few channels errors do not average out: every product adds its error. Swin V2 also
    multiplies scores, which are cosines, by up to 100.
    """
    rounded = 1 - matrices * ROUNDED_TO_4_BITS
    if precision == "int8" and isinstance(config, SwinConfig):
        return 0.98
    return rounded if precision in ("q4", "q4f16") else PRECISIONS[precision].limit.value


def assert_half(model, half, opset):
    """Assert that matrices and convolution kernels are in half precision.

    Convolutions in bfloat16 need opset 22.
    """
    has_half_convolutions = half != BFLOAT or opset >= 22
    weights = [v for v in model.graph.initializers.values() if v.dtype in (half, FLOAT)]
    assert {v.dtype for v in weights if len(v.shape) == 4} == {
        half if has_half_convolutions else FLOAT
    }
    name = re.compile(r"\.(qkv|kv|proj|pwconv\d|fc\d|w\d+)\.weight$")
    assert {v.dtype for v in weights if name.search(v.name) and len(v.shape) == 2} == {half}


def test_large_values_stay_in_float32(tmp_path):
    """A residual stream beyond 65,504 overflows in float16, so its nodes stay in float32."""
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
    is_right = (
        worst_cosine(tmp_path / "naive.onnx", "fp16", source, image)
        >= PRECISIONS["fp16"].limit.value
    )
    assert is_right == is_older(runtime.RELEASE, "1.27")  # earlier versions compute in float32
    write_lower_precision(source, tmp_path / "half.onnx", "fp16", [image])
    assert (
        worst_cosine(tmp_path / "half.onnx", "fp16", source, image)
        >= PRECISIONS["fp16"].limit.value
    )
    assert {path.name for path in tmp_path.iterdir()} == {"source.onnx", "naive.onnx", "half.onnx"}


def test_bfloat16_is_rounded_after_every_node():
    """The emulation gives what explicit rounding after every step gives."""
    rng = np.random.default_rng(0)
    kernel, bias = rng.standard_normal((2, 5, 5), dtype=np.float32)
    x = rng.standard_normal((3, 5), dtype=np.float32)
    export = converter.to_onnx(lambda x: jnp.tanh(x @ kernel) * bias[0], [(3, 5)])
    low = converter.lower_precision(export.model, "bfloat16")

    def round_bfloat16(array):
        return array.astype(ml_dtypes.bfloat16).astype(np.float32)

    (actual,) = converter.run(converter.emulate_bfloat16(low), [x]).values()
    expected = round_bfloat16(
        round_bfloat16(np.tanh(round_bfloat16(round_bfloat16(x) @ round_bfloat16(kernel))))
        * round_bfloat16(bias[0])
    )
    np.testing.assert_allclose(actual, expected, rtol=2**-8, atol=0)
    assert np.array_equal(actual, round_bfloat16(actual))
    with pytest.raises(converter.SpecError, match=r"float16 or bfloat16, received 'float8'"):
        converter.lower_precision(export.model, "float8")


def add_outlier_channels(config, factor):
    """Return weights of the same function with a few inner channels scaled by `factor`."""
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
    """Networks with channels hundreds of times larger than the others stay exact.

    ONNX Runtime's dynamic quantization alone fails for them.
    """
    config = MODELS[name]
    source = write(tmp_path / "source.onnx", config, 18, add_outlier_channels(config, 300))
    image = pixels(config)
    smoothed = ir.load(source)
    matrices = len([*find_products(smoothed.graph)])
    smooth_activations(smoothed)
    before, after = (converter.run(model, [image]) for model in (source, smoothed))
    for output in before:
        np.testing.assert_allclose(after[output], before[output], rtol=0, atol=2e-5)
    for precision in LOWER:
        file = tmp_path / f"{precision}.onnx"
        write_lower_precision(source, file, precision, [image])
        assert worst_cosine(file, precision, source, image) >= minimum_cosine(
            precision, matrices, config
        )
    options = {"op_types_to_quantize": ["MatMul"], "weight_type": QuantType.QInt8}
    quantize_dynamic(source, file, per_channel=True, **options)
    assert worst_cosine(file, "int8", source, image) < PRECISIONS["int8"].limit.value


def draw_normal(seed, *shape):
    """Return normally distributed float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.mark.parametrize("precision", ["int8", "q4"])
def test_integer_products_are_within_rounding(precision):
    """Products differ from those with the rounded matrix by the rounding of activations at most.

    Two products have the same activations, and one of them a bias. 77 rows are no multiple of a
    block of 32. A column of zeros has the scale of no element.
    """
    shapes = ((77, 33), (77, 5), (33,), (77,), (2, 4, 77))
    first, second, bias, mean, x = (draw_normal(seed, *shape) for seed, shape in enumerate(shapes))
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
    outputs = converter.run(model, [x]).values()
    step = np.ptp(x) / 255 if precision == "int8" else abs(x).max() / 127
    for (matrix, addend), actual in zip(((first, bias), (second, 0)), outputs, strict=True):
        rounded = codec.round_matrix(matrix, codec.scales(matrix))
        assert not rounded[:, ~matrix.any(0)].any()
        expected = x @ rounded + addend + mean @ (matrix - rounded)
        assert (abs(actual - expected) <= step / 2 * abs(rounded).sum(0) + 1e-4).all()
    names = set(model.graph.initializers)
    assert {"first", "first_scale", "second", "second_scale", "second_shift"} <= names
    assert "first_shift" not in names
    operators = [node.op_type for node in model.graph]
    # The activations of both products are quantized once.
    assert operators.count("DynamicQuantizeLinear") == (precision == "int8")


@pytest.mark.parametrize("opset", [17, 18])
def test_means_of_activations(opset):
    x, params = draw_normal(1, 1, 3, 4, 6), {"matrix": draw_normal(0, 6, 5)}
    export = converter.to_onnx(lambda p, x: x @ p["matrix"], [x], params=params, opset=opset)
    (measured,) = measure_means(export.model, [x]).values()
    mean = x.mean((0, 1, 2))
    np.testing.assert_allclose(measured, (mean + mean[::-1]) / 2, atol=1e-6)


@pytest.fixture
def mixed_file(tmp_path):
    """A file with a 4-bit product between float16 nodes, its input and its float32 output.

    A CPU computes the float16 nodes in float32.
    """
    params = {"matrix": draw_normal(0, 64, 48), "bias": draw_normal(1, 48)}
    x = draw_normal(2, 5, 1, 2, 64)

    def fn(p, x):
        return {"y": (x * x) @ p["matrix"] + p["bias"]}

    source, file = tmp_path / "whole.onnx", tmp_path / "halves.onnx"
    converter.to_onnx(fn, [x], params=params, path=source, opset=18)
    write_lower_precision(source, file, "q4f16", [x])
    return file, x, fn(params, x)["y"]


def test_four_bits_in_float16_at_every_level(mixed_file):
    """ONNX Runtime converts the scales to float32, so that they are no constants to an integer
    kernel."""
    file, x, expected = mixed_file
    for level, session in iter_sessions(file):
        (actual,) = run(session, [x]).values()
        assert converter.compare(actual, np.asarray(expected)).cosine > 0.99, level
    (node,) = (node for node in ir.load(file).graph if node.op_type == "MatMulNBits")
    assert "accuracy_level" not in node.attributes


@pytest.mark.parametrize("level", ["disabled", "basic", "extended", "all"])
def test_a_file_is_verified_at_every_level(mixed_file, level, monkeypatch):
    file, x, expected = mixed_file
    sample = Sample({"pixel_values": x}, {"y": expected})
    assert verify_file(file, [sample], "q4f16").passed
    open_session = runtime.session

    def open_wrong_session(model, provider=runtime.CPU, at="all"):
        session = open_session(model, provider, at)
        return open_session(negate_output(model), provider, at) if at == level else session

    monkeypatch.setattr(runtime, "session", open_wrong_session)
    verification = verify_file(file, [sample], "q4f16")
    assert not verification.passed and {row.level for row in verification.comparisons} == {level}
    assert verification.levels == LEVELS


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
def test_rows_in_another_order_are_excused(change, excused, is_right, tmp_path):
    """Few rows may change their order if a perturbed evaluation in JAX has that order.

    Rows that JAX has in no order are an error, and so is NaN.
    """
    expected = np.arange(200, dtype=np.float32).reshape(1, 100, 2)
    x = np.zeros((1, 3, 4, 4), np.float32)
    orders = ([1, 0, *range(2, 100)], [*range(1, 8), 0, *range(8, 100)])
    perturbed_outputs = tuple({"y": expected[:, order]} for order in orders)
    sample = Sample(
        {"pixel_values": x},
        {"y": expected},
        align_outputs=align_detections,
        perturbed_outputs=perturbed_outputs,
    )
    actual = change(expected[0])[None]
    converter.to_onnx(lambda x: {"y": actual + 0 * x.sum()}, [x]).save(tmp_path / "x.onnx")
    verification = verify_file(tmp_path / "x.onnx", [sample])
    assert verification.passed == is_right
    assert verification.comparisons[0].excused == pytest.approx(excused)
    assert ("as for inputs moved" in describe_limit(verification)) == bool(excused)


def negate_output(file):
    """Return the model with its output negated."""
    model = ir.load(file)
    (y,) = model.graph.outputs
    (negated,) = (node := ir.node("Neg", [y])).outputs
    negated.name, negated.type, negated.shape = "minus", y.type, y.shape
    model.graph.append(node)
    model.graph.outputs[0] = negated
    return model


@needs_quantized_23
@pytest.mark.each("opset")
@pytest.mark.parametrize("opset", [17, 23])
@pytest.mark.parametrize("name", MODELS)
def test_scales_by_row_depend_on_no_other_image(name, opset, tmp_path):
    """With scales by row, an image has the same outputs alone and beside one that is 1000 times
    brighter, and is as exact as with scales by tensor. With scales by tensor they differ."""
    config = MODELS[name]
    source = write(tmp_path / "source.onnx", config, opset)
    image = pixels(config)
    pair = np.concatenate([image, 1000 * make_image(1, *image.shape[2:])[None]])
    differences, cosines = {}, {}
    for scales in ("row", "tensor"):
        file = tmp_path / f"{scales}.onnx"
        write_lower_precision(source, file, "int8", [image], scales=scales)
        alone, paired = (converter.run(file, [batch]) for batch in (image, pair))
        differences[scales] = max(float(abs(alone[n] - paired[n][:1]).max()) for n in alone)
        cosines[scales] = worst_cosine(file, "int8", source, image)
    assert cosines["row"] > min(PRECISIONS["int8"].limit.value, cosines["tensor"] - 0.01)
    # Sums of floats may have another order if a product has more rows.
    assert differences["row"] < 1e-4 < differences["tensor"]


@needs_quantized_23
def test_a_row_of_zeros_gives_zeros(tmp_path):
    export = converter.to_onnx(
        lambda params, x: x @ params, [("n", 4)], params=np.eye(4, dtype=np.float32)
    )
    export.save(tmp_path / "source.onnx")
    rows = np.array([[0, 0, 0, 0], [1e-3, -2e-3, 0, 1e-4], [5, -6, 7, 1e6]], np.float32)
    write_lower_precision(
        tmp_path / "source.onnx", tmp_path / "int8.onnx", "int8", [rows], scales="row"
    )
    (actual,) = converter.run(tmp_path / "int8.onnx", [rows]).values()
    assert (actual[0] == actual[0][0]).all() and abs(actual[0]).max() < 1e-2
    step = abs(rows).max(1, keepdims=True) / 127
    assert (abs(actual - rows - actual[0]) <= step).all()
