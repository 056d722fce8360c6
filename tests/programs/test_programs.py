"""Every program gives JAX's numbers in ONNX Runtime: as its case states, on numbers of all
magnitudes, and under JAX's transformations."""

from dataclasses import replace
from importlib import import_module
from typing import Any

import jax
import numpy as np
import pytest

import converter
from converter.decompositions.registered import BUILTIN_EXPANSIONS
from converter.frontend.refused import REFUSAL_REASONS
from tests.conformance import (
    RUNS,
    SAMPLES,
    Case,
    assert_exports,
    assert_runs,
    inputs,
)
from tests.converter.test_rules import equations
from tests.programs import public
from tests.programs.table import BY_COVERAGE, PROGRAMS, SUBJECTS, at_opsets, tiers
from tests.programs.ways import WAYS, wrapped
from tests.since import needs

pytestmark = pytest.mark.filterwarnings("ignore:left out")


def test_program_names_are_unique():
    assert len(PROGRAMS) == sum(map(len, SUBJECTS.values()))


TAGGED = [row for row in at_opsets(RUNS) if RUNS in row.values[0].tags]


@pytest.mark.parametrize(("case", "opset"), TAGGED)
def test_runs(case: Case, opset: int):
    assert_runs(case, opset)


@pytest.mark.full
@pytest.mark.parametrize(("case", "opset"), at_opsets(RUNS))
def test_exports(case: Case, opset: int):
    assert_exports(case, opset)


KNOWN_DIFFERENCES = {
    "reduce approx_top_k": "0.0 and -0.0 are equal, as its report says, and strict keeps that",
    "computations in order": "what is associative for digits is not for larger numbers",
    "found windows that fit": "the function of the windows is not associative when it is rounded",
    "complex numbers derivatives": "a product of infinities has NaN in another part",
    **dict.fromkeys(
        (f"decompositions lower triangle of {n} with zeros on its diagonal" for n in (9, 40)),
        "quotients by zero are infinite, and their sum is NaN or not by the order: an open element",
    ),
    **dict.fromkeys(
        (f"decompositions triangular_solve, conjugate, {side}" for side in ("left", "right")),
        "a zero is on the diagonal, and a quotient by a complex zero is infinite or NaN",
    ),
    "public random.f": "a quotient overflows in JAX, but not if it is compiled",
    "public random.t": "XLA flushes a subnormal gamma variate to zero, and 64 bits draw others",
    **dict.fromkeys(
        ("edges float16 to float8_e4m3fnuz", "edges float32 to float8_e4m3fnuz"),
        "XLA without its fusion emitters has NaN for small negative numbers, and the file zero",
    ),
    "public scipy.special.expn": "a negative order is none",
    "public scipy.special.polygamma": "JAX has NaN at an order of 10**8, the file infinity",
    "public scipy.special.wofz": "a product of infinities has NaN in another part",
    "public scipy.special.zeta": "the derivative at a pole is a sum of infinities",
}
"""Programs that differ from JAX on drawn numbers, with the reason."""


@pytest.mark.parametrize("case", tiers(SAMPLES))
def test_samples(case: Case, request: pytest.FixtureRequest):
    """The file gives JAX's numbers for ordinary, repeated, zero and large numbers, at the smallest
    and largest sizes of named dimensions."""
    name = request.node.callspec.id
    with jax.enable_x64(case.x64):
        verdict = judged(case, case.export(), case.call)
    assert verdict.passed == (name not in KNOWN_DIFFERENCES), verdict.differences[:1]


def judged(case: Case, export: converter.Export, fn: Any, arrays: Any = None) -> Any:
    """Return the verdict of a file. If its report states deviations and it fails, return the
    verdict of the strict file. Skips a program that raises in JAX on these numbers."""
    try:
        verdict = converter.check(export, fn, arrays)
    except (converter.CheckError, ValueError) as error:
        assert "JAX cannot evaluate the function" in str(error) or "CpuCallback error" in str(error)
        pytest.skip(str(error).splitlines()[0])
    if verdict.passed or case.strict or not export.report.deviations:
        return verdict
    return converter.check(replace(case, strict=True).export(), fn, arrays)


# ------------------------------------------------------------------------------ transformations

REFUSED_BY_JAX = (
    NotImplementedError,
    TypeError,
    ValueError,
    AssertionError,
    RuntimeError,
    IndexError,
    FutureWarning,
)
"""Errors of JAX's transformations: for most primitives here some transformation is not implemented.
FutureWarning is an error in tests, and announces what a later JAX refuses."""

NOT_WRITTEN = {("complex numbers reductions", "jvp")}
"""Programs under a transformation that the converter refuses: the derivative of a maximum over
windows of complex numbers."""

TYPE_ERRORS_OF_JAX = {("decompositions mapped", "vmap of cond")}
"""Programs for which JAX raises a TypeError when they are called, but not when they are traced."""


NAN_IN_A_POOL = "the gradient of a window with NaN goes elsewhere, as the strict report states"
DIFFERENT_WAYS = {
    ("lookalikes scales of float16", "vmap of grad"): "a sum overflows in JAX; ONNX Runtime adds "
    "in float32",
    ("attention heated, float16", "vmap of grad"): "ONNX Runtime compares a clipped number with "
    "the number before it was rounded to float16",
    **{
        (f"deviations {name} of float32", "vmap of grad"): NAN_IN_A_POOL
        for name in ("max_pool", "max_pool of minima")
    },
}
"""Programs that differ from JAX under a transformation, with the reason."""

OUT_OF_BOUNDS = {
    ("edges masked gather, gather of gather", "vmap of grad"),
    ("edges written at constant indices", "vmap of cond"),
}
"""Programs with indices out of bounds under a transformation that hides the mask of a gather, or
that an index is constant. ONNX Runtime raises an error for these indices."""


def is_named(spec: Any) -> bool:
    """Return whether a spec has named sizes. With fixed sizes the near miss has another reason or
    none."""
    return not hasattr(spec, "shape") and any(
        isinstance(leaf, str) for leaf in jax.tree.leaves(spec)
    )


PLAIN = {
    name: replace(
        case,
        specs=inputs(case.specs),
        said="" if any(map(is_named, case.specs)) else case.said,
    )
    for name, case in PROGRAMS.items()
    if case.params is None and not case.x64 and not name.startswith(("public ", "forms "))
}
"""Programs that run under transformations. The fuzzer transforms the lines of forms."""


def primitives(case: Case) -> set[str]:
    """Return the primitives of a case's jaxpr. Return an empty set if JAX refuses to trace it."""
    try:
        with jax.enable_x64(case.x64):
            jaxpr = jax.make_jaxpr(case.fn)(*inputs(case.specs)).jaxpr
    except REFUSED_BY_JAX:
        return set()
    return {eqn.primitive.name for eqn in equations(jaxpr)}


def runnable_primitives(case: Case, compiled: Any) -> set[str]:
    """Return the primitives of a case. Skips a case that JAX refuses to run."""
    try:
        jax.block_until_ready(compiled(*inputs(case.specs)))
    except REFUSED_BY_JAX as error:
        pytest.skip(f"JAX itself: {type(error).__name__}: {str(error).splitlines()[0]}")
    return primitives(case)


@pytest.mark.each("way")
@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(
            name,
            way,
            id=f"{name}-{way}",
            marks=(*needs(case.since), *(() if way in case.tags else (pytest.mark.full,))),
        )
        for name, case in PLAIN.items()
        for way in WAYS
    ],
)
def test_every_way(name: str, way: str):
    """A program under a transformation gives JAX's numbers, or is refused for a stated reason."""
    if (name, way) in TYPE_ERRORS_OF_JAX:
        pytest.skip("JAX raises a TypeError for an axis that is a numpy integer")
    case = WAYS[way](PLAIN[name])
    compiled = jax.jit(case.fn)
    may_be_refused = (
        runnable_primitives(case, compiled) & REFUSAL_REASONS.keys() or (name, way) in NOT_WRITTEN
    )
    try:
        export = case.export()
    except converter.UnsupportedError as error:
        # The number of kernels, or of calls of a user's function, has to be fixed.
        assert may_be_refused or (way == "open batch" and "give one" in str(error))
        return
    # The transformation may cause a near miss with another reason before the program's reason.
    assert not case.said or export.report.near_misses
    # The inputs of an open batch are those of a fixed one, whose indices are in range.
    known = wrapped(PLAIN[name], "vmap0") if way == "open batch" else case
    if (name, way) in OUT_OF_BOUNDS:
        with pytest.raises(converter.CheckError, match=r"invalid ind(ex|ice) found"):
            converter.check(export, compiled, inputs(known.specs))
        return
    verdict = judged(case, export, compiled, inputs(known.specs))
    is_different = (name, way) in DIFFERENT_WAYS
    assert verdict.passed != is_different, [str(d) for d in verdict.differences]


def test_every_way_is_in_the_default_tier():
    assert set[str]().union(*(case.tags for case in PROGRAMS.values())) >= WAYS.keys()


# ------------------------------------------------------------------------------- decompositions

WITHOUT_PROGRAM = {
    "geqp3": "inside of `qr` with pivots, which has a row",
    "log2": "of jax >= 0.12",
    **dict.fromkeys(("empty2", "stage", "tie", "zeros_like"), "no public function binds it"),
    **dict.fromkeys(("scaled_matmul", "scaled_matmul_wrapper"), "JAX runs it on NVIDIA's only"),
}
"""Decompositions without a program, with the reason."""


def test_every_decomposition_is_in_the_default_tier():
    """Collectives over several devices are left out: on one device they mean the same as those over
    named axes."""
    devices = {"axes", "axis_name", "axis_index_groups"}
    over_devices = {
        name for name, expansion in BUILTIN_EXPANSIONS.items() if expansion.ignores & devices
    }
    default_cases = [case for case in PROGRAMS.values() if RUNS in case.tags]
    converted = set[str]().union(*map(primitives, default_cases))
    assert BUILTIN_EXPANSIONS.keys() - over_devices - converted - WITHOUT_PROGRAM.keys() == set()


def test_programs_by_coverage_exist():
    assert PROGRAMS.keys() >= BY_COVERAGE


# ------------------------------------------------------------------------------ public functions


@pytest.mark.full
@pytest.mark.parametrize("module", sorted({module for module, *_ in public.rows()}))
def test_every_public_function_has_a_program(module: str):
    """The test fails if a new release of JAX has a public function without a program."""
    covered = {
        name.removesuffix("*") for namespace, name, _ in public.rows() if namespace == module
    }
    assert not covered & public.excluded(module)
    assert not {*public.public(import_module(module))} - covered - public.excluded(module)


DTYPES = ("bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float64")


SINGULAR = {("public numpy.linalg.cond", "bool")}
"""Programs that divide by a number which is zero apart from rounding errors."""


@pytest.mark.full
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name.startswith("public numpy.")])
def test_other_dtypes(name: str, dtype: str):
    """A function gives JAX's numbers if its float operands have another dtype that JAX accepts."""
    case = PROGRAMS[name]
    arrays = [x.astype(dtype) if x.dtype == np.float32 else x for x in case.specs]
    with jax.enable_x64(dtype == "float64"):
        try:
            jax.block_until_ready(case.compiled(None, *arrays))
        except REFUSED_BY_JAX as error:
            pytest.skip(f"JAX itself: {type(error).__name__}: {str(error).splitlines()[0]}")
        verdict = converter.check(converter.to_onnx(case.fn, arrays), case.call, arrays)
    assert verdict.passed == ((name, dtype) not in SINGULAR), verdict.differences[:1]
