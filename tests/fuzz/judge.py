"""Judge a program: convert it, load and run its file, and compare the outputs with JAX."""

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
from tests.forms.errors import ANY, IN_JAX, IN_ONNX_RUNTIME
from tests.forms.program import Program, function
from tests.fuzz.flushed import right_if_flushed
from tests.fuzz.reach import Reach

FINE = (
    *("right", "refused", "deviates", "overflows", "invalid", "too small", "promised"),
    *("subnormal", "sign of NaN", "sign of zero", "reciprocal", "open", "no rounds"),
)
"""Accepted outcomes of a program.

- `right`: the file gives JAX's numbers.
- `refused`: the converter refuses the program.
- `deviates`: the report states a deviation, and the strict file is right or states one too.
- `overflows`: a value overflows or is subnormal in float16 in JAX, where norms and attention of the
  file compute in float32; or a square overflows float32 where a norm of the file computes the
  variance from centred numbers; or a matrix product overflows behind which ONNX Runtime moves a
  scale.
- `invalid`: JAX itself does not run the program.
- `too small`: a window does not fit into an axis of named size. ONNX Runtime raises an error, and
  JAX has no elements.
- `promised`: an index is out of range in the derivative of `x.at[i].min`, `max` or `set`, where JAX
  promises that it is within.
- `subnormal`: the file is right if ONNX Runtime flushes subnormal numbers to zero, as XLA does.
- `sign of NaN`: XLA's `top_k` sorts a NaN with its sign bit set last, and an operation may set any
  bits of a NaN.
- `sign of zero`: the largest of zeros of both signs may be either, and so may a sum of -0, and the
  program reads the sign.
- `no rounds`: ONNX Runtime does not know open sizes of a result that no round of a loop has
  computed.
- `reciprocal`: the file is right if JAX divides. XLA multiplies by the reciprocal of a value that
  is broadcast along an axis, and flushes a subnormal reciprocal to zero.
- `open`: JAX itself has another number if it is not compiled, or for inputs that are moved by one
  rounding error. Examples are the derivative of a maximum of equals in windows of two axes, a
  product that is infinite in another order, and the derivative of a root next to zero.
"""

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
"""The cause of a wrong outcome that no reported deviation of NaN and infinities explains."""

NOTHING = re.compile(r"an output is (\w+)\[0, [\d, ]+\] in ONNX Runtime and \1\[0, ")


@dataclass(frozen=True)
class Outcome:
    """What became of a program. ``kind`` is one of `FINE`, or `wrong`, `wrong if optimised`, `does
    not load`, `does not run`, `exception`, `crash`, `hangs`. ``detail`` is a message, and ``cause``
    groups failures of the same cause."""

    kind: str
    detail: str = ""
    cause: str = ""
    branches: int = 0
    """The number of branches in the source and of ways that its loops can turn."""
    taken: int = 0
    """The number of these that ran."""

    @property
    def is_fine(self) -> bool:
        """Whether the outcome is accepted."""
        return self.kind in FINE


class Invalid(Exception):
    """Raised if JAX itself does not run the program."""


def judge(
    program: Program, tell: Callable[[bool], object] = bool, *, is_flushed: bool = False
) -> Outcome:
    """Convert and run a program and return what became of it.

    ``tell`` is called with True when JAX starts to run the program, and with False when it has
    finished. ``is_flushed`` says that ONNX Runtime flushes subnormal numbers to zero in this
    process.
    """
    with jax.enable_x64(program.x64):
        outcome = _judge(program, tell)
    if outcome.kind.startswith("wrong") and not is_flushed and right_if_flushed(program):
        return Outcome("subnormal")
    return outcome


def _judge(program: Program, tell: Callable[[bool], object]) -> Outcome:
    fn, params = function(program)
    specs = [(spec.shape, spec.dtype) for spec in program.inputs.values()]
    options = {"params": params, "opset": program.opset, "strict": program.strict}
    try:
        export = converter.to_onnx(fn, specs, **options)
    except (converter.UnsupportedError, converter.SpecError) as error:
        return Outcome("refused", str(error), _plain(str(error)))
    except ANY as error:
        return _raised("invalid" if _raises(program, type(error)) else "exception", error)
    outcome = _checked(program, export, tell)
    if outcome.kind.startswith("wrong") and outcome.cause != FINITE and export.report.deviations:
        if program.strict:  # the report of a strict conversion states what remains
            return Outcome("deviates")
        strict = _judge(replace(program, strict=True), tell)
        return Outcome("deviates") if strict.kind == "right" else strict
    return outcome


def _called(program: Program, wrap: Callable[..., Any] = lambda fn: fn) -> Callable[..., Any]:
    """Return the program as a function of its inputs. Its parameters are operands, not
    constants."""
    fn, params = function(program)
    return wrap(fn) if params is None else partial(wrap(fn), params)


def _raises(program: Program, kind: type[Exception]) -> bool:
    """Return whether JAX raises an error of this class when it runs the program."""
    sizes = [[d if isinstance(d, int) else 3 for d in s.shape] for s in program.inputs.values()]
    inputs = [jnp.zeros(n, s.dtype) for n, s in zip(sizes, program.inputs.values(), strict=True)]
    try:
        _called(program, jax.jit)(*inputs)
    except ANY as error:
        return isinstance(error, kind)
    return False


def _checked(program: Program, export: converter.Export, tell: Callable[[bool], object]) -> Outcome:
    """Return the outcome on inputs that the converter draws, with the branches that ran."""
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
        if isinstance(error.__cause__, OverflowError) and _raises(program, OverflowError):
            return Outcome("invalid", str(error))
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
            return _unexcused(program, export, first, verdict)
    return Outcome(excuses[-1])


def _unexcused(
    program: Program,
    export: converter.Export,
    first: converter.Difference,
    verdict: converter.Verdict,
) -> Outcome:
    """Return the outcome of a difference that has no accepted reason."""
    is_unoptimised = any(d.level == "disabled" for d in verdict.differences)
    is_explained = _meets(program, first.inputs, _is_not_finite) or not _concern_infinite(export)
    kind = "wrong" if is_unoptimised else "wrong if optimised"
    return Outcome(kind, str(first), "" if is_explained else FINITE)


def _concern_infinite(export: converter.Export) -> bool:
    """Return whether all deviations of a report are of NaN and infinities only."""
    return all(INFINITE.match(text) for text in export.report.deviations)


def _excuse(program: Program, export: converter.Export, first: converter.Difference) -> str:
    """Return the kind in `FINE` of an accepted difference, otherwise an empty text."""
    inputs = first.inputs
    for pattern, predicate, kind in (
        ("float16", _is_extreme, "overflows"),
        ("-1e9", _is_below_masks, "deviates"),
        ("top_k", _is_negative_nan, "sign of NaN"),
        (SIGNED, _holds_nan, "sign of NaN"),
        (f"{SIGNED}|top_k", _has_both_zeros, "sign of zero"),
    ):
        if re.search(pattern, str(program)) and _meets(program, inputs, predicate):
            return kind
    if "Normalization" in str(export.report.fused) and _meets(program, inputs, _overflows):
        return "overflows"
    optimised = first.level != "disabled" and first.got in ("inf", "-inf", "nan")
    if optimised and _overflows_behind_a_product(program, export, inputs):
        return "overflows"
    if _has_node(program, inputs, _overflows_in_some_order):
        return "open"
    has_huge = _meets(program, inputs, _is_huge)
    if has_huge and converter.check(export, _dividing(program)).passed:
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
    """Return whether JAX has several numbers for the element: compiled or step by step, or for
    inputs that are moved by one rounding error."""
    graph = _traced(program)
    output = [f"output_{i}" for i in range(len(graph.outputs))].index(difference.output)
    rng = np.random.default_rng(0)
    moved_inputs = [_moved(np.asarray(x), rng) for x in inputs]
    compiled, eager = _reference(program, bool), _eager(program)
    numbers = [
        float(jax.tree.leaves(run(*arguments))[output][difference.index])
        for run, arguments in ((compiled, inputs), (eager, inputs), (compiled, moved_inputs))
    ]
    return not np.isclose(numbers[0], numbers[1:], rtol=1e-3, atol=0, equal_nan=True).all()


def _moved(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an array whose floats are moved by about one rounding error."""
    if x.dtype not in (np.float32, np.float64):
        return x
    step = np.finfo(x.dtype).eps * np.maximum(np.abs(x), 1)
    return (x + step * rng.choice([-1, 0, 1], x.shape)).astype(x.dtype)


def _meets(
    program: Program, inputs: Sequence[np.ndarray], predicate: Callable[[np.ndarray], bool]
) -> bool:
    """Return whether an array with this property is an operand or a result, also in loops."""
    return _has_node(program, inputs, lambda _, arrays: any(map(predicate, arrays)))


def _has_node(
    program: Program,
    inputs: Sequence[np.ndarray],
    matches: Callable[[Node | None, list[np.ndarray]], bool],
) -> bool:
    """Return whether ``matches`` holds for a node with its operands and results, or for the
    outputs, for which the node is None."""
    graph = _traced(program)
    has_match = False

    def apply(node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        nonlocal has_match
        results = run_node(node, args, sizes)
        arrays = [np.asarray(y) for y in (*args, *results) if not isinstance(y, Tracer)]
        has_match = has_match or matches(node, arrays)
        return results

    outputs: list[Any] = []
    # Evaluation without `jit` also visits the nodes of loops. JAX runs some products, and loops of
    # no rounds, only under `jit`.
    for steps in (jax.disable_jit(), contextlib.nullcontext()):
        with contextlib.suppress(*IN_JAX), steps:
            outputs = evaluate(graph, inputs, apply=apply)
            break
    return has_match or matches(None, [np.asarray(y) for y in outputs])


def _overflows_in_some_order(node: Node | None, arrays: list[np.ndarray]) -> bool:
    """Return whether a product of the node's factors overflows in another order."""
    if node is None or node.op is not ops.reduce_prod or not arrays:
        return False
    large = np.maximum(abs(arrays[0]), arrays[0].dtype.type(1))
    with np.errstate(over="ignore"):
        return bool(np.isinf(large.prod(tuple(node.params["axes"]))).any())


def _is_extreme(array: np.ndarray) -> bool:
    """Return whether a float16 array has infinities, NaN or subnormal numbers."""
    if array.dtype != np.float16:
        return False
    normal = (array == 0) | (abs(array) >= np.finfo(np.float16).smallest_normal)
    return not (np.isfinite(array) & normal).all()


def _is_not_finite(array: np.ndarray) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.inexact) and not np.isfinite(array).all())


def _overflows(array: np.ndarray) -> bool:
    """Return whether squares of a float32 array overflow. Fill values of masks are ignored."""
    if array.dtype != np.float32:
        return False
    size = abs(array)
    return bool(((size > 1.8e19) & (size < 3e38) & (size != np.float32(1e30))).any())


def _is_below_masks(array: np.ndarray) -> bool:
    """Return whether there are scores that a mask of -1e9 does not hide."""
    return array.dtype == np.float32 and bool(((array < -1e8) & (abs(array + 1e9) > 1e7)).any())


def _is_huge(array: np.ndarray) -> bool:
    """Return whether there are finite numbers with subnormal reciprocals."""
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
    """Return a function that runs the program operation by operation. XLA rewrites operations that
    it compiles together, such as `x / x` to 1 for infinite x."""
    call = _called(program)

    def run(*inputs: Any) -> Any:
        arrays = list(map(jnp.asarray, inputs))
        try:
            with jax.disable_jit():
                return call(*arrays)
        except ValueError:  # JAX runs a loop of no rounds only under `jit`
            return call(*arrays)

    return run


def _dividing(program: Program) -> Callable[..., Any]:
    """Return a function that runs the program step by step, with quotients that numpy computes."""
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
    """Return the outcome of an error that ONNX Runtime raises."""
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
    """Return the outcome of a Python error, with the innermost function of the converter as its
    cause."""
    frames = traceback.extract_tb(error.__traceback__)
    converter_frames = [
        f for f in frames if f"{Path(converter.__file__).parent}/" in f.filename
    ] or frames
    position = f"{Path(converter_frames[-1].filename).name}:{converter_frames[-1].name}"
    detail = f"{type(error).__name__}: {error}"
    return Outcome(
        kind,
        f"{detail} [{position}:{converter_frames[-1].lineno}]",
        f"{type(error).__name__} {position}",
    )


def _plain(message: str) -> str:
    """Return a message without names and numbers, as the cause of an outcome."""
    first = message.split("\n")[0].split("[/")[0]
    first = re.sub(r"'[^']*_\d+'|\([^()]*\)", "", first) if "primitive" in first else first
    return re.sub(r"\d+", "N", first)[:160]
