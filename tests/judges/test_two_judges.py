"""Files of programs and networks in ONNX's reference evaluator and OpenVINO, compared with JAX.

Where one of them differs from JAX and ONNX Runtime, the text of the operator decides. Faults of a
runtime are in `docs/runtimes.md`, and the cases that show them are ``KNOWN``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np
import onnx_ir as ir
import pytest

import converter
import zoo
from converter.frontend.array_forms import to_graph_array
from tests.conformance import JUDGES, Case, assert_close, inputs, results
from tests.judges.evaluator import evaluate
from tests.judges.habits import Arrays, Runtime
from tests.judges.habits.page import TABLES
from tests.judges.runtimes import Apart
from tests.programs.table import PROGRAMS, at_opsets, of
from tests.programs.window import FORMS
from tests.runtimes import networks
from tests.seeded import model_of, nano
from zoo.architectures.builder import batched

Judge = Callable[[ir.Model, Arrays], list[np.ndarray] | BaseException]

pytestmark = pytest.mark.filterwarnings("ignore:left out")

LEFT_OUT = ("attention ", "edges ", "lookalikes ", "recurrent ")
"""Tables of programs with rows of NaN or values out of range, and with operators that only ONNX
Runtime has."""
EXTREME = (
    *("deviations ", "primitives ", "elementwise nextafter of "),
    *("elementwise bitcast to ", "elementwise bitcast from "),
    *(f"decompositions {name} at edges " for name in ("igamma", "igammac", "polygamma")),
)
"""Programs with NaN, infinities and the largest numbers of each dtype. OpenVINO computes other
numbers for them (`docs/runtimes.md`), and its loops on NaN may not end. ONNX's evaluator runs
them."""
FINITE_IN_XLA = "primitives unary functions of bfloat16, 128 units 23"
"""A program with ``exp2(128)``, which is infinite in ONNX's evaluator and 2.7e38 in XLA."""
UNDESCRIBED = {
    *("forms switch_of_round 2", "forms switch_of_round 7", "forms switch_of_scanned 1"),
    *("forms switch_of_scanned 2", "forms scan_of_branches 2", "forms fori_of_any 1"),
    *("forms pool_gradient", "forms pool_gradient 2"),
}
"""Programs for which ONNX Runtime agrees with JAX, and OpenVINO or the evaluator does not. OpenVINO
refuses the first six."""

JUDGED = {name: case for name, case in PROGRAMS.items() if not name.startswith(LEFT_OUT)}
REASON = "a fault of OpenVINO or of the evaluator in this program is not described yet"
ROWS = [
    pytest.param(*row.values, id=row.id, marks=(*row.marks, pytest.mark.skip(reason=REASON)))
    if row.id.rpartition(" ")[0] in UNDESCRIBED
    else row
    for row in at_opsets(JUDGES, JUDGED)
]

NETWORKS = {**networks.NETWORKS, "vit5": nano(zoo.info("vit5_small").config)}

TOO_FEW_REGISTERS = "not enough registers"
"""OpenVINO's message if its code for a long chain of elementwise operations does not fit into the
registers of a processor without AVX-512."""

FROM_THE_END = "Scanning from the end"
GROUPS = "Transposed convolutions with several kernels a group"
NEW = "Operators of opset 26"
GROUPED = ("groups, dilated input", "gradient with groups", "ConvTranspose2d groups")
DOUBLES = "Doubles"
EMPTY = "A constant without elements"
NEVER = "A loop without turns"
OUTSIDE = "A scan whose body reads a value outside of it"
EQUALS = "Order of equal smallest elements"
UNREAD = "A scan over an input that its body does not read"
COMPARED, MAXIMUM, EXP = "NaN compared", "NaN through a maximum", "NaN through exp"

EMPTY_PROGRAMS = (
    *("program of which parts are used", "lost in a sort", "of an empty map", "standardized"),
    *("norm of nothing", "repeated never", "linear to nothing", "attention of no queries"),
    *("selected", "slope of cummin"),
)
FLOAT64_PROGRAMS = (
    *("epsilon of float64", "scale of float64", "dot of float64", "small epsilon of float64"),
    "rotated float64",
)
LOOPS_WITHOUT_TURNS = (
    *("linalg.eigh_tridiagonal", "stats.gennorm.cdf", "stats.gamma.logsf", "stats.gamma.sf"),
    *(f"stats.beta.{name}" for name in ("cdf", "logcdf", "logsf", "sf")),
    *(f"special.{name}" for name in ("exp1", "expi", "expn", "gammaincc", "betainc")),
    "stats.poisson.cdf",
)

KNOWN: dict[Runtime, dict[str, str]] = {
    "onnx.reference": {
        "control scan reversed 23": FROM_THE_END,
        "control scan without operands 23": "Scalars collected by a loop",
        "control gradient of a scan 23": FROM_THE_END,
        "decompositions tridiagonal_solve, complex 23": FROM_THE_END,
        "calls buffers, gradient 23": FROM_THE_END,
        "public scipy.special.bessel_jn 23": FROM_THE_END,
        "elementwise pow 23": "The square root of minus infinity as a power",
        **dict.fromkeys((f"window {name} 23" for name in GROUPED), GROUPS),
        "channels transposed, 2 groups 23": GROUPS,
    },
    "openvino": {
        "control cond inside scan 23": OUTSIDE,
        "complex numbers arithmetic 23": OUTSIDE,
        **{f"public scipy.special.{name} 23": OUTSIDE for name in ("bessel_jn", "wofz")},
        "control scan of length zero 23": EMPTY,
        "window nothing left of a window 18": EMPTY,
        "window nothing left of a window 23": EMPTY,
        **{f"found {name} 23": EMPTY for name in EMPTY_PROGRAMS},
        **{f"public scipy.{name} 23": NEVER for name in LOOPS_WITHOUT_TURNS},
        **{f"found branch chosen by a {name} 23": UNREAD for name in ("number", "parameter")},
        **{f"{n} reduce_precision 23": "Rounding to float16" for n in ("elementwise", "forms")},
        **{f"forms {n} 23": EMPTY for n in ("slice", "dynamic_slice", "lax_slice")},
        **{
            f"forms {n} 23": "8-bit integers beyond their range"
            for n in ("power_of_number 1", "switch_of_round 5", "scan_of_branches", "vmap_nested")
        },
        "elementwise uint8 arithmetic 17": "8-bit integers beyond their range",
        "elementwise uint8 arithmetic 23": "8-bit integers beyond their range",
        **{f"elementwise bitcast{n} 26": NEW for n in ("", " back")},
        **{f"elementwise {n} 23": MAXIMUM for n in ("max", "min", "relu", "erf_inv")},
        "elementwise compare 23": COMPARED,
        "elementwise exp 23": EXP,
        "elementwise pow 23": EXP,
        **{
            f"public scipy.stats.{name} 23": EXP
            for name in ("bernoulli.pmf", "binom.pmf", "nbinom.pmf", "geom.pmf", "dirichlet.pdf")
        },
        **dict.fromkeys(("elementwise bitcast 17", "elementwise lgamma 23"), DOUBLES),
        **{f"found {name} 23": DOUBLES for name in FLOAT64_PROGRAMS},
        "indexing filler is an input 23": "A padding with a number that is not a constant",
        "reduce int sum wraps 23": "64-bit integers",
        "reduce uint32 extremes 23": DOUBLES,
        **{
            f"reduce {n} 26": NEW
            for n in ("cumprod", "cumprod op", "cumprod over a name", "uint16")
        },
        **{f"reduce {n} 23": COMPARED for n in ("cummax nan", "nan is last", "two keys nan")},
        "reduce lexsort 23": EQUALS,
        **{
            f"public numpy.{name} 23": EQUALS
            for name in ("extract", "intersect1d", "setxor1d", "unique_all")
        },
        **{f"window {name} of float64 23": DOUBLES for name in FORMS},
        "window gradient with groups 23": "Two convolutions with the same kernels, the first one "
        "scaled",
    },
}
"""By runtime and case (table, name and opset): the fault in `docs/runtimes.md`."""


def differs_in_openvino(model: ir.Model) -> bool:
    """Return whether a model has a BitShift, or a Resize with antialiasing or `exclude_outside`.

    OpenVINO ignores these attributes: it resizes otherwise, and shifts to the right give zeros.
    """
    nodes = list(model.graph.all_nodes())
    resizes = [node for node in nodes if node.op_type == "Resize"]
    attributes = [r.attributes.get(n) for r in resizes for n in ("antialias", "exclude_outside")]
    shifts = any(node.op_type == "BitShift" for node in nodes)
    return shifts or any(attribute and attribute.as_int() for attribute in attributes)


def samples_bilinearly(model: ir.Model) -> bool:
    """Return whether a model has a GridSample of mode "bilinear", which the evaluator lacks."""
    samples = [node for node in model.graph.all_nodes() if node.op_type == "GridSample"]
    return any(node.attributes["mode"].as_string() == "bilinear" for node in samples)


IS_LEFT_OUT: dict[Runtime, Callable[[str, ir.Model], bool]] = {
    "onnx.reference": lambda name, model: name == FINITE_IN_XLA or samples_bilinearly(model),
    "openvino": lambda name, model: name.startswith(EXTREME) or differs_in_openvino(model),
}
"""By runtime: whether a program is of a table that the runtime does not run, or a model has
attributes that the runtime reads wrongly in any file.

These faults are in `docs/runtimes.md`.
"""


def evaluate_or_error(model: ir.Model, arrays: Arrays) -> list[np.ndarray] | BaseException:
    """Return the outputs of ONNX's evaluator, or the error that it raises."""
    try:
        return evaluate(ir.to_proto(model), arrays)
    except (RuntimeError, ValueError) as error:
        return error


@pytest.fixture(scope="module")
def judges() -> Iterator[dict[Runtime, Judge]]:
    """Return a function for each runtime that runs a model on arrays."""
    # Importing openvino here would fork this process for its telemetry.
    if find_spec("openvino") is None:
        pytest.skip("openvino is not installed")
    with closing(Apart("openvino")) as process:
        yield {
            "onnx.reference": evaluate_or_error,
            "openvino": lambda model, xs: process(ir.to_proto(model).SerializeToString(), xs),
        }


def assert_agrees(
    judge: Judge, model: ir.Model, arrays: Arrays, expected: Sequence[Any], tolerance: float = 1.0
) -> None:
    """Assert that a judge gives the expected outputs of a model, within a tolerance."""
    outputs = judge(model, arrays)
    if isinstance(outputs, BaseException) and TOO_FEW_REGISTERS in str(outputs):
        pytest.skip(f"OpenVINO cannot compile this program for this processor: {outputs}")
    assert not isinstance(outputs, BaseException), outputs
    for actual, reference in zip(outputs, expected, strict=True):
        assert_close(actual, reference, tolerance)


def test_known_faults_are_on_the_page():
    for runtime, cases in KNOWN.items():
        names = {habit.name for habits in TABLES[runtime].values() for habit in habits}
        assert set(cases.values()) <= names
        assert set(cases) <= {row.id for row in ROWS}


@pytest.mark.parametrize(("case", "opset"), ROWS)
def test_programs_agree_in_all_judges(case: Case, opset: int, judges, request):
    name, arrays = request.node.callspec.id, inputs(case.specs)
    with jax.enable_x64(case.x64):
        model, expected = case.export(opset).model, results(case, arrays)
        graph_arrays = [to_graph_array(array) for array in arrays]
    for judge_name, judge in judges.items():
        if IS_LEFT_OUT[judge_name](name, model):
            continue
        reason = KNOWN[judge_name].get(name)
        with pytest.raises(AssertionError) if reason else nullcontext():
            assert_agrees(judge, model, graph_arrays, expected, case.tolerance)
            if reason:
                pytest.fail(f"{judge_name} has mended: {reason}")


ATTENTION = {name: case for name, case in of("spellings").items() if "Attention" in case.ops}


@pytest.mark.each()
@pytest.mark.parametrize("case", ATTENTION.values(), ids=ATTENTION)
def test_attention_of_three_axes_agrees_in_all_judges(case: Case, judges):
    arrays = inputs(case.specs)
    model, expected = case.export(attention_layout="3d").model, results(case, arrays)
    for judge in judges.values():
        assert_agrees(judge, model, arrays, expected)


@pytest.mark.full
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("batch", [2, "B"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_agree_in_all_judges(name, batch, opset, judges):
    config = NETWORKS[name]
    model, size = model_of(config), networks.size_of(config)
    pixels = np.random.default_rng(1).standard_normal((2, 3, *size)).astype(np.float32)
    export = converter.to_onnx(batched, [(batch, 3, *size)], params=model, opset=opset)
    expected = jax.tree.leaves(jax.jit(batched)(model, pixels))
    for judge in judges.values():
        assert_agrees(judge, export.model, [pixels], expected, 4)
