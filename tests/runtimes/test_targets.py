"""What is written for a runtime runs there, and gives what JAX gives."""

import onnx
import onnx_ir as ir
import pytest

import converter
from converter.targets.casts import FIXED_RESULT_DTYPES, RESULT_DTYPE_OPERANDS, inferred_dtypes
from tests.runtimes import load
from tests.runtimes.networks import NETWORKS, furthest, pixels, right, size_of, write
from zoo.export.request import Signature

LIMITS = {"fp32": 1e-5, "fp16": 2e-2}
"""Of the largest number of an output."""

PRECISIONS = {
    "tract": ("fp16", "int8", "q4", "q4f16"),
    "opencv": ("fp16",),
    "iree": ("fp16", "int8"),
}
"""What the zoo writes for each, besides float32."""

full = pytest.mark.full


@pytest.mark.parametrize(
    "name",
    sorted(
        {*FIXED_RESULT_DTYPES, *RESULT_DTYPE_OPERANDS, "TopK", "Add", "Clip", "Gather", "Slice"}
    ),
)
def test_dtypes_of_results_are_those_of_the_standard(name):
    """Of operands of a dtype each, where a result has that of one of them or can have one only."""
    schema = onnx.defs.get_schema(name, 21)
    dtypes = dict(zip((x.type_str for x in schema.inputs), [*ir.DataType][1:], strict=False))
    operands = [
        ir.Value(name=f"x{i}", type=ir.TensorType(dtypes[x.type_str]))
        for i, x in enumerate(schema.inputs)
    ]
    node = ir.Node("", name, operands, num_outputs=len(schema.outputs))
    found = inferred_dtypes(ir.Model(ir.Graph(operands, node.outputs, nodes=[node]), ir_version=10))
    for result, stated in zip(node.outputs, schema.outputs, strict=True):
        if stated.type_str in dtypes:
            assert found[result] == dtypes[stated.type_str]
        else:
            assert {f"tensor({found[result].name.lower()})"} == stated.types


def signature_of(target: str, name: str, batch: int, precision: str = "fp32") -> Signature:
    """Open, where the target takes that; IREE compiles integers of fixed sizes alone."""
    if converter.TARGETS[target].static_sizes_only or (target, precision) == ("iree", "int8"):
        return Signature(size_of(NETWORKS[name]), batch)
    return Signature(None, None)


def run_one(folder, name, runtime, target, precision="fp32", opset=None, batch=2):
    """The file, what the runtime gives, and what JAX does, or ONNX Runtime in low precision."""
    load.need(runtime)
    images = pixels(NETWORKS[name], batch)
    signature = signature_of(target, name, batch, precision)
    file = write(folder, name, target, signature, precision, opset)
    found = load.RUNTIMES[runtime](file)([images])
    wanted = right(name, images) if precision == "fp32" else load.onnxruntime(file)([images])
    return file, found, wanted


@pytest.mark.each("runtime")
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    ("runtime", "target"),
    [
        *(("tract", "tract"), ("opencv", "opencv"), ("tract", "portable"), ("opencv", "portable")),
        # Compiling takes many seconds.
        *(pytest.param("iree", target, marks=full) for target in ("iree", "portable")),
    ],
)
def test_float32(runtime, target, name, tmp_path):
    file, found, wanted = run_one(tmp_path, name, runtime, target)
    assert furthest(found, wanted) < LIMITS["fp32"]
    onnx.checker.check_model(file, full_check=True)


@pytest.mark.full
def test_iree_has_norms(tmp_path):
    file, found, wanted = run_one(tmp_path, "dinov3_vit", "iree", "portable", batch=1)
    assert furthest(found, wanted) < LIMITS["fp32"]
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
def test_precisions(target, precision, name, opset, tmp_path):
    _, found, wanted = run_one(tmp_path, name, target, target, precision, opset)
    # A number that falls on the other side of a step of 8 bits moves others after it.
    assert furthest(found, wanted) < LIMITS.get(precision, 3e-2)


@pytest.mark.each()
@pytest.mark.parametrize("precision", LIMITS)
def test_portable_files_hold_nothing_special(precision, tmp_path):
    for name in NETWORKS:
        file = write(tmp_path, name, "portable", signature_of("portable", name, 1), precision)
        model = onnx.load(file)
        assert {(each.domain, each.version) for each in model.opset_import} == {("", 18)}
        computed = {output for node in model.graph.node for output in node.output}
        assert not computed & {value.name for value in model.graph.value_info}
        for node in model.graph.node:
            assert node.op_type != "LayerNormalization" or len(node.input) == 3
