"""Files for a target run in its runtime; the outputs are compared with JAX or ONNX Runtime."""

import onnx
import onnx_ir as ir
import pytest

import converter
from converter.targets.casts import FIXED_RESULT_DTYPES, RESULT_DTYPE_OPERANDS, inferred_dtypes
from tests.runtimes import load
from tests.runtimes.networks import NETWORKS, furthest, jax_outputs, pixels, size_of, write
from zoo.export.request import Signature

LIMITS = {"fp32": 1e-5, "fp16": 2e-2}
"""Largest error by precision, relative to the largest number of an output."""

PRECISIONS = {
    "tract": ("fp16", "int8", "q4", "q4f16"),
    "opencv": ("fp16",),
    "iree": ("fp16", "int8"),
}
"""Precisions that the zoo writes for each target, besides float32."""

full = pytest.mark.full


@pytest.mark.parametrize(
    "name",
    sorted(
        {*FIXED_RESULT_DTYPES, *RESULT_DTYPE_OPERANDS, "TopK", "Add", "Clip", "Gather", "Slice"}
    ),
)
def test_inferred_dtypes_match_the_schemas(name):
    """Inferred dtypes of results match the ONNX schema, for operands with distinct dtypes."""
    schema = onnx.defs.get_schema(name, 21)
    dtypes = dict(zip((x.type_str for x in schema.inputs), [*ir.DataType][1:], strict=False))
    operands = [
        ir.Value(name=f"x{i}", type=ir.TensorType(dtypes[x.type_str]))
        for i, x in enumerate(schema.inputs)
    ]
    node = ir.Node("", name, operands, num_outputs=len(schema.outputs))
    inferred = inferred_dtypes(
        ir.Model(ir.Graph(operands, node.outputs, nodes=[node]), ir_version=10)
    )
    for result, declared in zip(node.outputs, schema.outputs, strict=True):
        if declared.type_str in dtypes:
            assert inferred[result] == dtypes[declared.type_str]
        else:
            assert {f"tensor({inferred[result].name.lower()})"} == declared.types


def signature_of(target: str, name: str, batch: int, precision: str = "fp32") -> Signature:
    """Return an open signature if the target allows it. IREE compiles int8 for fixed sizes only."""
    if converter.TARGETS[target].static_sizes_only or (target, precision) == ("iree", "int8"):
        return Signature(size_of(NETWORKS[name]), batch)
    return Signature(None, None)


def run_one(folder, name, runtime, target, precision="fp32", opset=None, batch=2):
    """Return the file, the runtime's outputs, and those of JAX (ONNX Runtime if not float32)."""
    load.need(runtime)
    images = pixels(NETWORKS[name], batch)
    signature = signature_of(target, name, batch, precision)
    file = write(folder, name, target, signature, precision, opset)
    actual = load.RUNTIMES[runtime](file)([images])
    expected = (
        jax_outputs(name, images) if precision == "fp32" else load.onnxruntime(file)([images])
    )
    return file, actual, expected


@pytest.mark.each("runtime")
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    ("runtime", "target"),
    [
        *(("tract", "tract"), ("opencv", "opencv"), ("tract", "portable"), ("opencv", "portable")),
        # IREE needs many seconds to compile a file.
        *(pytest.param("iree", target, marks=full) for target in ("iree", "portable")),
    ],
)
def test_float32_files_match_jax(runtime, target, name, tmp_path):
    file, actual, expected = run_one(tmp_path, name, runtime, target)
    assert furthest(actual, expected) < LIMITS["fp32"]
    onnx.checker.check_model(file, full_check=True)


@pytest.mark.full
def test_iree_file_has_layer_norms(tmp_path):
    file, actual, expected = run_one(tmp_path, "dinov3_vit", "iree", "portable", batch=1)
    assert furthest(actual, expected) < LIMITS["fp32"]
    operators = [node.op_type for node in onnx.load(file).graph.node]
    assert operators.count("LayerNormalization") == 5


@pytest.mark.each("target", "precision", "name")
@pytest.mark.parametrize("opset", [pytest.param(18, marks=full), 23])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=full if n == "vit_digits" else ()) for n in NETWORKS]
)
@pytest.mark.parametrize(
    ("target", "precision"),
    [
        pytest.param(target, precision, marks=full if target == "iree" else ())
        for target, precisions in PRECISIONS.items()
        for precision in precisions
    ],
)
def test_low_precision_files_match_onnxruntime(target, precision, name, opset, tmp_path):
    _, actual, expected = run_one(tmp_path, name, target, target, precision, opset)
    # A value that is rounded to the neighbouring step of 8 bits changes all values after it.
    assert furthest(actual, expected) < LIMITS.get(precision, 3e-2)


@pytest.mark.each()
@pytest.mark.parametrize("precision", LIMITS)
def test_portable_files_use_common_features_only(precision, tmp_path):
    for name in NETWORKS:
        file = write(tmp_path, name, "portable", signature_of("portable", name, 1), precision)
        model = onnx.load(file)
        assert {(imported.domain, imported.version) for imported in model.opset_import} == {
            ("", 18)
        }
        computed = {output for node in model.graph.node for output in node.output}
        assert not computed & {value.name for value in model.graph.value_info}
        for node in model.graph.node:
            assert node.op_type != "LayerNormalization" or len(node.input) == 3
