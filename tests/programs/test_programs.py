"""Every program: by its own assertion, on numbers of all sizes, and in every way of JAX's."""

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


def test_names_are_of_one_program_each():
    assert len(PROGRAMS) == sum(map(len, SUBJECTS.values()))


TAGGED = [row for row in at_opsets(RUNS) if RUNS in row.values[0].tags]


@pytest.mark.parametrize(("case", "opset"), TAGGED)
def test_runs(case: Case, opset: int):
    assert_runs(case, opset)


@pytest.mark.full
@pytest.mark.parametrize(("case", "opset"), at_opsets(RUNS))
def test_exports(case: Case, opset: int):
    assert_exports(case, opset)


OTHERWISE = {
    "reduce approx_top_k": "0.0 and -0.0 are equal, as its report says, and strict keeps that",
    "computations in order": "what is associative for digits is not for larger numbers",
    "complex numbers derivatives": "a product of infinities has NaN in another part",
    "public scipy.special.expn": "a negative order is none",
    "public scipy.special.polygamma": "JAX has NaN at an order of 10**8, the file infinity",
    "public scipy.special.wofz": "a product of infinities has NaN in another part",
    "public scipy.special.zeta": "the derivative at a pole is a sum of infinities",
}
"""Programs that differ from JAX on numbers that the judge draws, and why."""

ENDLESS = {"complex numbers control", "public random.binomial"}
"""Programs that do not come back in JAX from numbers that are drawn."""


@pytest.mark.parametrize("case", tiers(SAMPLES))
def test_samples(case: Case, request: pytest.FixtureRequest):
    """Ordinary, repeated, zero and large numbers, at the extremes of named dimensions."""
    name = request.node.callspec.id
    if name in ENDLESS:
        pytest.skip("JAX itself does not come back from numbers that are drawn")
    with jax.enable_x64(case.x64):
        verdict = judged(case, case.export(), case.call)
    assert verdict.passed == (name not in OTHERWISE), verdict.differences[:1]


def judged(case: Case, export: converter.Export, fn: Any, arrays: Any = None) -> Any:
    """A file's verdict; where its report says what differs, that of a strict one. Skips what raises
    in JAX on these numbers."""
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
"""What its transformations raise: most primitives here have some that nobody has written. What a
later JAX refuses is a warning, which is an error in tests."""

NOT_WRITTEN = {("complex numbers reductions", "jvp")}
"""The derivative of a window's maximum of complex numbers, which is refused."""

OF_JAX = {("decompositions mapped", "vmap of cond")}
"""What JAX itself ends in a TypeError when it is called, and not when it is traced."""


OVERFLOWS = {("lookalikes scales of float16", "vmap of grad")}
"""What overflows in JAX, so that its sum is NaN; ONNX Runtime adds it up in float32."""


def is_named(spec: Any) -> bool:
    """Whether it may have named sizes: where these are known, another reason is given, or none."""
    return not hasattr(spec, "shape") and any(isinstance(x, str) for x in jax.tree.leaves(spec))


PLAIN = {
    name: replace(
        case,
        specs=inputs(case.specs),
        said="" if any(map(is_named, case.specs)) else case.said,
    )
    for name, case in PROGRAMS.items()
    if case.params is None and not case.x64 and not name.startswith("public ")
}


def primitives(case: Case) -> set[str]:
    """The primitives that JAX makes of it; none of what JAX refuses while it traces."""
    try:
        jaxpr = jax.make_jaxpr(case.fn)(*inputs(case.specs)).jaxpr
    except REFUSED_BY_JAX:
        return set()
    return {eqn.primitive.name for eqn in equations(jaxpr)}


def held(case: Case, compiled: Any) -> set[str]:
    """The same; skips what JAX itself has something against."""
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
    if (name, way) in OF_JAX:
        pytest.skip("JAX itself: an axis of numpy's integers is no axis")
    case = WAYS[way](PLAIN[name])
    compiled = jax.jit(case.fn)
    may_be_refused = held(case, compiled) & REFUSAL_REASONS.keys() or (name, way) in NOT_WRITTEN
    try:
        export = case.export()
    except converter.UnsupportedError as error:
        # A number of kernels, or of calls of somebody's code, cannot be open.
        assert may_be_refused or (way == "open batch" and "give one" in str(error))
        return
    # A transformation may bring a reason before the program's own.
    assert not case.said or export.report.near_misses
    # What is open has the numbers that it has where it is known: indices that are in range.
    known = wrapped(PLAIN[name], "vmap0") if way == "open batch" else case
    verdict = judged(case, export, compiled, inputs(known.specs))
    assert verdict.passed == ((name, way) not in OVERFLOWS), [str(d) for d in verdict.differences]


def test_every_way_is_tried_by_default():
    assert set[str]().union(*(case.tags for case in PROGRAMS.values())) >= WAYS.keys()


# ------------------------------------------------------------------------------- decompositions

ALONE = {
    "geqp3": "inside of `qr` with pivots, which has a row",
    "log2": "of jax >= 0.12",
    **dict.fromkeys(("empty2", "stage", "tie", "zeros_like"), "no public function binds it"),
    **dict.fromkeys(("scaled_matmul", "scaled_matmul_wrapper"), "JAX runs it on NVIDIA's only"),
}
"""Decompositions without a program, and why."""


def test_every_decomposition_is_run_by_default():
    """Of collectives those of one device are here; the others mean the same as they do."""
    devices = {"axes", "axis_name", "axis_index_groups"}
    others = {name for name, own in BUILTIN_EXPANSIONS.items() if own.ignores & devices}
    run = [case for case in PROGRAMS.values() if RUNS in case.tags]
    tried = set[str]().union(*map(primitives, run))
    assert BUILTIN_EXPANSIONS.keys() - others - tried - ALONE.keys() == set()


def test_programs_by_coverage_are_programs():
    assert PROGRAMS.keys() >= BY_COVERAGE


# ------------------------------------------------------------------------------ public functions


@pytest.mark.full
@pytest.mark.parametrize("module", sorted({module for module, *_ in public.rows()}))
def test_every_public_function_has_a_program(module: str):
    """A new release of JAX shows here what it brought."""
    tried = {name.removesuffix("*") for place, name, _ in public.rows() if place == module}
    assert not tried & public.left(module)
    assert not {*public.public(import_module(module))} - tried - public.left(module)


DTYPES = ("bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float64")


SINGULAR = {("public numpy.linalg.cond", "bool")}
"""What divides by a number that is zero but for roundings."""


@pytest.mark.full
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name.startswith("public numpy.")])
def test_other_dtypes(name: str, dtype: str):
    """Every operand of floats of another dtype, where JAX takes that."""
    case = PROGRAMS[name]
    arrays = [x.astype(dtype) if x.dtype == np.float32 else x for x in case.specs]
    with jax.enable_x64(dtype == "float64"):
        try:
            jax.block_until_ready(case.compiled(None, *arrays))
        except REFUSED_BY_JAX as error:
            pytest.skip(f"JAX itself: {type(error).__name__}: {str(error).splitlines()[0]}")
        verdict = converter.check(converter.to_onnx(case.fn, arrays), case.call, arrays)
    assert verdict.passed == ((name, dtype) not in SINGULAR), verdict.differences[:1]
