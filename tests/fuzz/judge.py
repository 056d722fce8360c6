"""What becomes of a program: it is converted, loaded, run, and compared with JAX."""

import contextlib
import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from jax.core import Tracer

import converter
from converter.frontend.trace import trace
from converter.ir import Graph, Node, ops
from converter.ir.evaluation import Sizes, evaluate, run_node
from tests.fuzz.errors import ANY, IN_JAX, IN_ONNX_RUNTIME
from tests.fuzz.flushed import right_if_flushed
from tests.fuzz.program import Program, function
from tests.fuzz.reach import Reach

FINE = (
    *("right", "refused", "deviates", "overflows", "invalid", "too small", "promised"),
    *("subnormal", "sign of NaN", "sign of zero", "reciprocal", "open", "no rounds"),
)
"""What may become of a program. `deviates`: the report says that it may, and a strict conversion
is right or says so too. `overflows`: something outgrows float16 in JAX, which norms and attention
compute in float32 in the file, or is a subnormal float16, which XLA takes for zero; or a square
outgrows float32, whose variance a norm of the file computes from centred numbers; or a matrix
product does, behind which ONNX Runtime moves a scale. `invalid`: JAX
itself does not run it. `too small`: a window does not fit into an axis of named size; ONNX Runtime
says so, where JAX has no elements. `promised`: an index leaves the array in the derivative of
`x.at[i].min`, `max` or `set`, where JAX promises that none does. `subnormal`: the file is right
where ONNX Runtime takes subnormal numbers for zero, as XLA does. `sign of NaN`: XLA's `top_k` puts
a NaN with its sign bit set last, and the bits of a NaN that an operation makes are open.
`sign of zero`: the largest of zeros of both signs may be either, as may a sum of -0, and something
looks at the sign. `no rounds`: ONNX Runtime does not know open sizes of what no round has given.
`reciprocal`: the file is right where JAX divides; XLA multiplies by the reciprocal of what is
repeated along an axis, and takes that for zero where it is subnormal. `open`: JAX has another
number compiled than step by step, as for the derivative of a maximum of equals in windows of two
axes, or a product that is infinite on the way in another order, or for inputs that are one rounding
away, as for the derivative of a root next to zero."""

OUTSIDE = re.compile(r"indices element out of data bounds|invalid ind(ice|ex) found")
SIGNED = "bitcast|signbit|copysign"
PROMISING = re.compile(r"(\.at\[.*\]\.|segment_)(min|max|set)\(")
DERIVATIVE = re.compile(r"jax\.(grad|value_and_grad|jac\w+|jvp|vjp|linearize)\(")
TOO_SMALL = re.compile(
    r"Calculated output dimension is negative|Conv node.*Invalid input shape"
    r"|ScatterElements node.*Indices vs updates dimensions differs"
    r"|ConvTranspose node.*output dimension is <= 0"
    r"|Pool node.*Only N can be zero"
)
INFINITE = re.compile(r"(?!.*(off by|0\.0|named size)).*(NaN|infinit)", re.DOTALL)
FINITE = "on finite numbers"
"""The cause of what no deviation of NaN and infinities explains."""

NOTHING = re.compile(r"an output is (\w+)\[0, [\d, ]+\] in ONNX Runtime and \1\[0, ")


@dataclass(frozen=True)
class Outcome:
    """``kind`` is one of `FINE`, or `wrong`, `wrong if optimised`, `does not load`, `does not run`,
    `exception`, `crash`, `hangs`; ``detail`` says more, ``cause`` groups what is alike."""

    kind: str
    detail: str = ""
    cause: str = ""
    branches: int = 0
    """How many branches of its source there are, and numbers of turns of its loops."""
    taken: int = 0
    """How many of them ran."""

    @property
    def is_fine(self) -> bool:
        return self.kind in FINE


class Invalid(Exception):
    """JAX itself does not run the program."""


def judge(
    program: Program, tell: Callable[[bool], object] = bool, *, is_flushed: bool = False
) -> Outcome:
    """Convert and run a program; ``tell`` is told when JAX begins to run it, and when it has.

    ``is_flushed`` says that ONNX Runtime takes subnormal numbers for zero here.
    """
    with jax.enable_x64(program.x64):
        outcome = _judge(program, tell)
    if outcome.kind.startswith("wrong") and not is_flushed and right_if_flushed(program):
        return Outcome("subnormal")
    return outcome


def _judge(program: Program, tell: Callable[[bool], object]) -> Outcome:
    fn, params = function(program)
    specs = [(spec.shape, spec.dtype) for spec in program.inputs.values()]
    how = {"params": params, "opset": program.opset, "strict": program.strict}
    try:
        export = converter.to_onnx(fn, specs, **how)
    except (converter.UnsupportedError, converter.SpecError) as error:
        return Outcome("refused", str(error), _plain(str(error)))
    except ANY as error:
        return _raised("invalid" if _raises(program, type(error)) else "exception", error)
    outcome = _checked(program, export, tell)
    if outcome.kind.startswith("wrong") and outcome.cause != FINITE and export.report.deviations:
        if program.strict:  # what cannot be mended is said there too
            return Outcome("deviates")
        strict = _judge(replace(program, strict=True), tell)
        return Outcome("deviates") if strict.kind == "right" else strict
    return outcome


def _called(program: Program, wrap: Callable[..., Any] = lambda fn: fn) -> Callable[..., Any]:
    """The program as a function of its inputs. Its parameters are operands too, no constants."""
    fn, params = function(program)
    return wrap(fn) if params is None else partial(wrap(fn), params)


def _raises(program: Program, kind: type[Exception]) -> bool:
    """Whether JAX raises the same where it runs the program."""
    sizes = [[d if isinstance(d, int) else 3 for d in s.shape] for s in program.inputs.values()]
    inputs = [jnp.zeros(n, s.dtype) for n, s in zip(sizes, program.inputs.values(), strict=True)]
    try:
        _called(program, jax.jit)(*inputs)
    except ANY as error:
        return isinstance(error, kind)
    return False


def _checked(program: Program, export: converter.Export, tell: Callable[[bool], object]) -> Outcome:
    """What becomes of it on inputs that the converter draws."""
    reach = Reach(program)
    outcome = _compared(program, export, _reference(program, tell, reach))
    return replace(outcome, branches=reach.known, taken=reach.taken)


def _compared(program: Program, export: converter.Export, reference: Callable[..., Any]) -> Outcome:
    try:
        verdict = converter.check(export, reference)
    except Invalid as error:
        return Outcome("invalid", str(error))
    except converter.CheckError as error:
        if isinstance(error.__cause__, IN_ONNX_RUNTIME):
            return _unfit(program, error.__cause__)
        kind = "no rounds" if NOTHING.match(str(error)) and "scan" in str(program) else "wrong"
        return Outcome(kind, str(error), "type")
    except ANY as error:
        return _unfit(program, error)
    if verdict.passed or converter.check(export, _eager(program)).passed:
        return Outcome("right")
    excuses = []
    for first in {d.sample: d for d in reversed(verdict.differences)}.values():
        excuses.append(_excuse(program, export, first))
        if not excuses[-1]:
            return _wrong(program, export, first, verdict)
    return Outcome(excuses[-1])


def _wrong(
    program: Program,
    export: converter.Export,
    first: converter.Difference,
    verdict: converter.Verdict,
) -> Outcome:
    """What is said of a difference that nothing excuses."""
    plain = any(d.level == "disabled" for d in verdict.differences)
    is_told = _meets(program, first.inputs, _is_not_finite) or not _concern_infinite(export)
    kind = "wrong" if plain else "wrong if optimised"
    return Outcome(kind, str(first), "" if is_told else FINITE)


def _concern_infinite(export: converter.Export) -> bool:
    """Whether all deviations of a report are of NaN and infinities alone."""
    return all(INFINITE.match(text) for text in export.report.deviations)


def _excuse(program: Program, export: converter.Export, first: converter.Difference) -> str:
    """Which of `FINE` a difference is, if it is one."""
    inputs = first.inputs
    for word, what, kind in (
        ("float16", _is_extreme, "overflows"),
        ("-1e9", _is_below_masks, "deviates"),
        ("top_k", _is_negative_nan, "sign of NaN"),
        (SIGNED, _holds_nan, "sign of NaN"),
        (f"{SIGNED}|top_k", _has_both_zeros, "sign of zero"),
    ):
        if re.search(word, str(program)) and _meets(program, inputs, what):
            return kind
    if "Normalization" in str(export.report.fused) and _meets(program, inputs, _overflows):
        return "overflows"
    optimised = first.level != "disabled" and first.got in ("inf", "-inf", "nan")
    if optimised and _overflows_behind_a_product(program, export, inputs):
        return "overflows"
    if _has_node(program, inputs, _overflows_in_some_order):
        return "open"
    divided = _meets(program, inputs, _is_huge)
    if divided and converter.check(export, _dividing(program)).passed:
        return "reciprocal"
    return "open" if is_open(program, first, inputs) else ""


def _overflows_behind_a_product(
    program: Program, export: converter.Export, inputs: Sequence[np.ndarray]
) -> bool:
    """Return whether the file is right unless ONNX Runtime moves a scale behind a matrix product.

    Its optimiser does that (MatMulScaleFusion): the product of numbers that were not yet divided
    may be infinite.
    """
    if "MatMul" not in export.report.histogram:
        return False
    content = ir.to_proto(export.model).SerializeToString()
    options = ort.SessionOptions()
    options.log_severity_level = 3
    unfused = ort.InferenceSession(content, options, disabled_optimizers=["MatMulScaleFusion"])
    return converter.check(unfused, _reference(program, bool), inputs).passed


def _traced(program: Program) -> Graph:
    fn, params = function(program)
    return trace(fn, [(s.shape, s.dtype) for s in program.inputs.values()], params)


def is_open(
    program: Program, difference: converter.Difference, inputs: Sequence[np.ndarray]
) -> bool:
    """Whether JAX has two numbers for the element: compiled as one and step by step, or for inputs
    that are one rounding away."""
    graph = _traced(program)
    output = [f"output_{i}" for i in range(len(graph.outputs))].index(difference.output)
    rng = np.random.default_rng(0)
    near = [_moved(np.asarray(x), rng) for x in inputs]
    compiled, eager = _reference(program, bool), _eager(program)
    found = [
        float(jax.tree.leaves(run(*arguments))[output][difference.index])
        for run, arguments in ((compiled, inputs), (eager, inputs), (compiled, near))
    ]
    return not np.isclose(found[0], found[1:], rtol=1e-3, atol=0, equal_nan=True).all()


def _moved(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every float by about one rounding."""
    if x.dtype not in (np.float32, np.float64):
        return x
    step = np.finfo(x.dtype).eps * np.maximum(np.abs(x), 1)
    return (x + step * rng.choice([-1, 0, 1], x.shape)).astype(x.dtype)


def _meets(
    program: Program, inputs: Sequence[np.ndarray], what: Callable[[np.ndarray], bool]
) -> bool:
    """Whether there is such an array on the way, in loops too, or at its end."""
    return _has_node(program, inputs, lambda _, arrays: any(map(what, arrays)))


def _has_node(
    program: Program,
    inputs: Sequence[np.ndarray],
    matches: Callable[[Node | None, list[np.ndarray]], bool],
) -> bool:
    """Return whether a node matches, with its operands and results, or the outputs without one."""
    graph = _traced(program)
    found = False

    def apply(node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        nonlocal found
        results = run_node(node, args, sizes)
        arrays = [np.asarray(y) for y in (*args, *results) if not isinstance(y, Tracer)]
        found = found or matches(node, arrays)
        return results

    ends: list[Any] = []
    # Step by step, so that loops are seen; some products XLA takes in a whole function only, and
    # a loop of no rounds is taken compiled only.
    for steps in (jax.disable_jit(), contextlib.nullcontext()):
        with contextlib.suppress(*IN_JAX), steps:
            ends = evaluate(graph, inputs, apply=apply)
            break
    return found or matches(None, [np.asarray(y) for y in ends])


def _overflows_in_some_order(node: Node | None, arrays: list[np.ndarray]) -> bool:
    """Return whether factors of a product, multiplied in another order, are infinite on the way."""
    if node is None or node.op is not ops.reduce_prod or not arrays:
        return False
    large = np.maximum(abs(arrays[0]), arrays[0].dtype.type(1))
    with np.errstate(over="ignore"):
        return bool(np.isinf(large.prod(tuple(node.params["axes"]))).any())


def _is_extreme(array: np.ndarray) -> bool:
    """A float16 that is infinite, no number, or subnormal."""
    if array.dtype != np.float16:
        return False
    normal = (array == 0) | (abs(array) >= np.finfo(np.float16).smallest_normal)
    return not (np.isfinite(array) & normal).all()


def _is_not_finite(array: np.ndarray) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.inexact) and not np.isfinite(array).all())


def _overflows(array: np.ndarray) -> bool:
    """Float32 numbers whose squares are infinite, and that are no fill of a mask."""
    if array.dtype != np.float32:
        return False
    size = abs(array)
    return bool(((size > 1.8e19) & (size < 3e38) & (size != np.float32(1e30))).any())


def _is_below_masks(array: np.ndarray) -> bool:
    """Scores that a mask of -1e9 does not hide, where the file takes it to."""
    return array.dtype == np.float32 and bool(((array < -1e8) & (abs(array + 1e9) > 1e7)).any())


def _is_huge(array: np.ndarray) -> bool:
    """Finite numbers whose reciprocals are subnormal."""
    if array.dtype not in (np.float32, np.float64):
        return False
    least = 1 / np.finfo(array.dtype).smallest_normal
    return bool((np.isfinite(array) & (abs(array) > least)).any())


def _holds_nan(array: np.ndarray) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.floating) and np.isnan(array).any())


def _has_both_zeros(array: np.ndarray) -> bool:
    zeros = array[array == 0] if jnp.issubdtype(array.dtype, jnp.floating) else array[:0]
    return len(np.unique(np.signbit(zeros))) > 1


def _is_negative_nan(array: np.ndarray) -> bool:
    return _holds_nan(array) and bool((np.isnan(array) & np.signbit(array)).any())


def _reference(
    program: Program, tell: Callable[[bool], object], reach: Reach | None = None
) -> Callable[..., Any]:
    call = _called(program, jax.jit)

    def run(*inputs: Any) -> Any:
        tell(True)
        try:
            if reach is not None:
                reach.run(inputs)
            return jax.block_until_ready(call(*inputs))
        except IN_JAX as error:
            raise Invalid(f"{type(error).__name__}: {error}") from error
        finally:
            tell(False)

    return run


def _eager(program: Program) -> Callable[..., Any]:
    """Operation by operation: XLA rewrites what it compiles as one, `x / x` to 1 for infinite x."""
    call = _called(program)

    def run(*inputs: Any) -> Any:
        arrays = list(map(jnp.asarray, inputs))
        try:
            with jax.disable_jit():
                return call(*arrays)
        except ValueError:  # a loop of no rounds is taken compiled only
            return call(*arrays)

    return run


def _dividing(program: Program) -> Callable[..., Any]:
    """The program step by step, its quotients by numpy."""
    graph = _traced(program)

    def apply(node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        if node.op is not ops.div or node.out.dtype.kind != "f":
            return run_node(node, args, sizes)
        with np.errstate(all="ignore"):
            return [np.divide(*map(np.asarray, args))]

    def run(*inputs: Any) -> Any:
        with jax.disable_jit():
            return evaluate(graph, inputs, apply=apply)

    return run


def _unfit(program: Program, error: Exception) -> Outcome:
    """What ONNX Runtime raises."""
    frames = traceback.extract_tb(error.__traceback__)
    if not type(error).__module__.startswith("onnxruntime"):
        return _raised("check raises", error)
    if TOO_SMALL.search(str(error)) and not all(s.is_static for s in program.inputs.values()):
        return Outcome("too small", str(error))
    promised = PROMISING.search(str(program)) and DERIVATIVE.search(str(program))
    if promised and OUTSIDE.search(str(error)):
        return Outcome("promised", str(error))
    kind = "does not load" if any(f.name == "session" for f in frames) else "does not run"
    return Outcome(kind, str(error), _plain(str(error)))


def _raised(kind: str, error: Exception) -> Outcome:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f"{Path(converter.__file__).parent}/" in f.filename] or frames
    place = f"{Path(own[-1].filename).name}:{own[-1].name}"
    detail = f"{type(error).__name__}: {error}"
    return Outcome(kind, f"{detail} [{place}:{own[-1].lineno}]", f"{type(error).__name__} {place}")


def _plain(message: str) -> str:
    """A message without names and numbers."""
    first = message.split("\n")[0].split("[/")[0]
    first = re.sub(r"'[^']*_\d+'|\([^()]*\)", "", first) if "primitive" in first else first
    return re.sub(r"\d+", "N", first)[:160]
