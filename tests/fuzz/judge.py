"""Judge a program: convert it, load and run its file, and compare the outputs with JAX."""

import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import onnx_ir as ir
import onnxruntime as ort

import converter
from converter.verify.step_by_step import LegalEvaluator
from tests.forms.errors import ANY, IN_JAX, IN_ONNX_RUNTIME
from tests.forms.program import Program, function
from tests.fuzz.reach import Reach

FINE = (
    "right",
    "refused",
    "deviates",
    "open",
    "scaled",
    "invalid",
    "too small",
    "promised",
    "no rounds",
)
"""Accepted outcomes of a program.

- `right`: the file gives JAX's numbers.
- `refused`: the converter refuses the program.
- `deviates`: the report states a deviation, and the strict file is right or states one too.
- `open`: no element is wrong, and some are open in the verdict of `converter.check`.
- `scaled`: a matrix product overflows behind which ONNX Runtime moves a scale.
- `invalid`: JAX itself does not run the program.
- `too small`: a window does not fit into an axis of named size. ONNX Runtime raises an error, and
  JAX has no elements.
- `promised`: an index is out of range in the derivative of `x.at[i].min`, `max` or `set`, where JAX
  promises that it is within.
- `no rounds`: ONNX Runtime does not know open sizes of a result that no round of a loop has
  computed.
"""

OUTSIDE = re.compile(r"indices element out of data bounds|invalid ind(ice|ex) found")
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


def judge(program: Program, tell: Callable[[bool], object] = bool) -> Outcome:
    """Convert and run a program and return what became of it.

    ``tell`` is called with True when JAX starts to run the program, and with False when it has
    finished.
    """
    with jax.enable_x64(program.x64):
        return _judge(program, tell)


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


def _compiled(program: Program) -> Callable[..., Any]:
    """Return the program as a compiled function of its inputs. Its parameters are operands, not
    constants."""
    fn, params = function(program)
    return jax.jit(fn) if params is None else partial(jax.jit(fn), params)


def _raises(program: Program, kind: type[Exception]) -> bool:
    """Return whether JAX raises an error of this class when it runs the program."""
    sizes = [[d if isinstance(d, int) else 3 for d in s.shape] for s in program.inputs.values()]
    inputs = [jnp.zeros(n, s.dtype) for n, s in zip(sizes, program.inputs.values(), strict=True)]
    try:
        _compiled(program)(*inputs)
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
    if verdict.passed:
        return Outcome("right")
    wrong = [difference for difference in verdict.differences if not difference.open]
    if not wrong:
        return Outcome("open", str(verdict.differences[0]))
    of_samples = {difference.sample: difference for difference in reversed(wrong)}.values()
    if all(_is_scaled(program, export, difference) for difference in of_samples):
        return Outcome("scaled")
    is_unoptimised = any(d.level == "disabled" for d in wrong)
    is_explained = _meets_infinities(program, wrong[0]) or not _concern_infinite(export)
    kind = "wrong" if is_unoptimised else "wrong if optimised"
    return Outcome(kind, str(wrong[0]), "" if is_explained else FINITE)


def _concern_infinite(export: converter.Export) -> bool:
    """Return whether all deviations of a report are of NaN and infinities only."""
    return all(INFINITE.match(text) for text in export.report.deviations)


def _meets_infinities(program: Program, difference: converter.Difference) -> bool:
    """Return whether a step of the program reads or returns an infinity or NaN on the inputs of a
    difference."""
    results = LegalEvaluator(_compiled(program)).evaluate(difference.inputs)
    return results is None or not results.is_finite


def _is_scaled(
    program: Program, export: converter.Export, difference: converter.Difference
) -> bool:
    """Return whether the file is right unless ONNX Runtime moves a scale behind a matrix product.

    Its optimiser does that (MatMulScaleFusion): the product of numbers that were not yet divided
    may be infinite.
    """
    is_optimised = difference.level != "disabled" and difference.got in ("inf", "-inf", "nan")
    if not is_optimised or "MatMul" not in export.report.histogram:
        return False
    content = ir.to_proto(export.model).SerializeToString()
    options = ort.SessionOptions()
    options.log_severity_level = 3
    unfused = ort.InferenceSession(content, options, disabled_optimizers=["MatMulScaleFusion"])
    return converter.check(unfused, _compiled(program), difference.inputs).passed


def _reference(
    program: Program, tell: Callable[[bool], object], reach: Reach
) -> Callable[..., Any]:
    """Return the compiled program, which tells when it runs and records the branches that run."""
    call = _compiled(program)

    def run(*inputs: Any) -> Any:
        tell(True)
        try:
            reach.run(inputs)
            return jax.block_until_ready(call(*inputs))
        except IN_JAX as error:
            raise Invalid(f"{type(error).__name__}: {error}") from error
        finally:
            tell(False)

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
