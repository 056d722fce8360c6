"""Explain why a function cannot be traced with named dimensions although it can be with numbers."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import Any, TypeAlias, TypeVar

import jax
from jax import errors, export

from converter.errors import UnsupportedError
from converter.frontend.source_lines import line_of
from converter.ir import Value
from converter.ir.dims import Shape, is_symbolic, size_product
from converter.ir.named_sizes import all_names, size_names
from converter.jax_versions import InconclusiveDimensionOperation

T = TypeVar("T")

Structs: TypeAlias = Sequence[jax.ShapeDtypeStruct]
TraceTest: TypeAlias = Callable[[Mapping[str, int | str]], bool]
"""Function that returns True if the user's function can be traced after some named dimensions were
replaced. The mapping has the replaced names, and a number or another dimension as text for each."""

DIMENSION_ERRORS = (
    InconclusiveDimensionOperation,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
)
"""Errors that JAX, numpy or Python raise for a dimension without a number. All of JAX's own errors
except the first one are subclasses of ``TypeError`` or ``LookupError``."""

SAMPLE_SIZE = 48
"""A number for a dimension, large and divisible enough for most networks."""

FACTORS = (2, 4, 8, 14, 16, 32)
"""Common factors of sizes: strides, and the patch sizes of vision transformers."""

CONCRETIZATION_ERRORS = (
    errors.ConcretizationTypeError,
    errors.JAXIndexError,
    errors.TracerArrayConversionError,
    errors.TracerIntegerConversionError,
)

_COMPARED = re.compile(r"comparison '(.+)' (>=|<=|>|<) '(.+)' is inconclusive")
_ARANGE = re.compile(r"In arange .*start=([\d.]+), stop=(.+), step=1$")
_REMAINDER = re.compile(r"mod\((\w+), -? ?(\d+)\)")


def explain_error(
    error: Exception, structs: Structs, run: Callable[[Structs], object], line: str
) -> UnsupportedError | None:
    """Return an error that explains why the user's function cannot be traced, or None.

    If the function can be traced with numbers for the named dimensions, these are the cause: the
    error names them, and a remedy. Otherwise the error explains that Python code needs the numbers
    of a traced array, or suggests ``jax.vmap``, if one of these applies. None means that the
    function raised the error for another reason.

    Arguments:
        error: the error that tracing raised.
        structs: the types of the function's inputs.
        run: traces the function for inputs of other types, and raises what tracing raises.
        line: the user's source line that raised the error, or "".
    """
    text, message, names = first_line(error), str(error), all_names(structs)
    cause: tuple[list[str], str] | None

    def works(numbers: Mapping[str, int | str]) -> bool:
        try:
            run([_substitute_sizes(struct, numbers) for struct in structs])
        except DIMENSION_ERRORS:
            return False
        return True

    if isinstance(error, InconclusiveDimensionOperation) or any(map(is_symbolic, error.args)):
        causing_names = [name for name in names if re.search(rf"\b{name}\b", text)] or names
        cause = causing_names, _known_advice(text) or _suggest_multiple(causing_names, works)
    elif names and works({name: SAMPLE_SIZE * (i + 1) for i, name in enumerate(names)}):
        # Reversed, so that the last of several possible names is reported.
        causing_names = sorted(
            minimal_subset(lambda subset: works(dict.fromkeys(subset, SAMPLE_SIZE)), names[::-1])
        )
        cause = _suggest_limit(works, message) or (
            causing_names,
            _suggest_multiple(causing_names, works),
        )
    else:
        cause = (
            _suggest_equal(names, works)
            or _suggest_limit(works, message)
            or _suggest_number(names, works, message)
        )
    if cause:
        return _dimension_error(*cause, text, line)
    return _explain_concretization(error, text, line) or _suggest_vmap(structs, run, text, line)


@contextmanager
def translate_errors(
    name: str, operands: Sequence[Value], sources: Sequence[Any]
) -> Iterator[None]:
    """Turn errors into `UnsupportedError` in a ``with`` block that traces the replacement of a
    primitive.

    An `UnsupportedError` gets the source line of the primitive. If the operands have named
    dimensions, an error of `DIMENSION_ERRORS` is replaced by an `UnsupportedError` that contains
    their names. Other errors are raised unchanged.

    Arguments:
        name: the name of the primitive.
        operands: its operands.
        sources: JAX's source locations of the primitive, innermost first.
    """
    try:
        yield
    except UnsupportedError as error:
        raise UnsupportedError(error.reason, line_of(sources)) from error
    except DIMENSION_ERRORS as error:
        dimension_names = all_names(operands)
        if not dimension_names:
            raise
        types, text = ", ".join(v.type_text() for v in operands), first_line(error)
        subject = f"primitive '{name}' ({types}) cannot be written"
        raise _dimension_error(dimension_names, "", text, line_of(sources), subject) from error


def check_reshape_sizes(shapes: Sequence[Shape], sources: Sequence[Any]) -> None:
    """Raise `UnsupportedError` if a reshape equates a named dimension with a number, which JAX
    accepts.

    Arguments:
        shapes: the shapes before and after the reshape.
        sources: JAX's source locations of the reshape, innermost first.

    Raises:
        UnsupportedError: the numbers of elements before and after have different named dimensions.
    """
    before, after = map(size_product, shapes)
    if unmatched := sorted(size_names(before) ^ size_names(after)):
        text, subject = f"{before} elements become {after}", "primitive 'reshape' cannot be written"
        raise _dimension_error(unmatched, _advice("", unmatched), text, line_of(sources), subject)


def minimal_subset(
    works: Callable[[Sequence[T]], bool], items: Sequence[T], required: Sequence[T] = ()
) -> list[T]:
    """Return a minimal list of items that makes a test succeed, in their original order.

    All items together must make it succeed, and further items must not make it fail. At least one
    item is returned. The search is binary (QuickXplain; Junker, 2004).

    Arguments:
        works: the test: returns True if these items are enough.
        items: one or more items to select from.
        required: items that are part of every test. They are not in the result.
    """
    if len(items) == 1:
        return list(items)
    first_half, second_half = items[: len(items) // 2], items[len(items) // 2 :]
    needed = (
        []
        if works([*required, *first_half])
        else minimal_subset(works, second_half, [*required, *first_half])
    )
    if needed and works([*required, *needed]):
        return needed
    return minimal_subset(works, first_half, [*required, *needed]) + needed


def _suggest_multiple(names: Sequence[str], works: TraceTest) -> str:
    """Return the advice to declare these dimensions as multiples of one of `FACTORS` if the
    function can be traced then, else ""."""
    for factor in FACTORS:
        # JAX's texts of shapes have no parentheses around products.
        if works({name: f"{factor}*{name}" for name in names}):
            texts = [f"mod({name}, {factor}) == 0" for name in names]
            subject = "they always are multiples" if len(names) > 1 else "it always is a multiple"
            return f"if {subject}, say so: constraints={texts}"
    return ""


def _suggest_equal(names: Sequence[str], works: TraceTest) -> tuple[list[str], str] | None:
    """Return two names and the advice to declare them as equal if the function can be traced then,
    else None."""
    for first, second in combinations(names, 2):
        if works({first: second}) or works(
            dict.fromkeys(names, SAMPLE_SIZE) | {first: SAMPLE_SIZE, second: SAMPLE_SIZE}
        ):
            advice = f"give them one name, or say so: constraints=['{first} == {second}']"
            return [first, second], advice
    return None


def _suggest_limit(works: TraceTest, message: str) -> tuple[list[str], str] | None:
    """Return a name and the advice to declare a largest size for it, or None.

    The error's message has ``min(512, B)`` where dimension ``B`` is compared with a table of 512
    entries. The advice is given if the function can be traced with 512 for ``B``.
    """
    for number, name in re.findall(r"min\((\d+), (\w+)\)", message):
        if works({name: number}):
            return [name], f"if it is never larger, say so: constraints=['{name} <= {number}']"
    return None


def _suggest_number(
    names: Sequence[str], works: TraceTest, message: str
) -> tuple[list[str], str] | None:
    """Return a name and the advice to give a fixed size for it, or None.

    The sizes to try are 1 and the numbers in the error's message. The advice is given for the first
    one with which the function can be traced.
    """
    for size in dict.fromkeys(["1", *re.findall(r"(?<![\w.])[1-9]\d*\b", message)]):
        for name in names:
            if works({name: size}):
                return [name], f"it can with {size}: give that in specs in its place"
    return None


def _explain_concretization(error: Exception, text: str, line: str) -> UnsupportedError | None:
    """Return the error for a function that needs an array's numbers while it is traced.

    It advises ``jax.numpy`` in place of numpy, or conditions and loops of JAX in place of Python's.
    Return None if ``error`` is of another kind.

    Arguments:
        error: the error that tracing raised.
        text: its first line.
        line: the user's source line that raised it.
    """
    if not isinstance(error, CONCRETIZATION_ERRORS):
        return None
    if isinstance(error, errors.TracerArrayConversionError):
        return UnsupportedError(
            f"the function passes a traced array to numpy: {text}; use jax.numpy in place of numpy "
            "for values that depend on an input",
            line,
        )
    return UnsupportedError(
        f"the function needs numbers that are known only when it runs: {text}; use jnp.where or "
        "jax.lax.cond for a choice, jax.lax.while_loop for a loop, and pass `size=` to functions "
        "whose result has a variable number of elements",
        line,
    )


def _suggest_vmap(
    structs: Structs, run: Callable[[Structs], object], text: str, line: str
) -> UnsupportedError | None:
    """Return an error with the advice to convert ``jax.vmap(function)``, or None.

    The advice is given if all inputs have the same first dimension and the function can be traced
    without it.

    Arguments:
        structs: the types of the function's inputs.
        run: traces the function for inputs of other types, and raises what tracing raises.
        text: the first line of the original error.
        line: the user's source line that raised it.
    """
    sizes = {str(struct.shape[0]) if struct.shape else "" for struct in structs}
    if len(sizes) != 1 or "" in sizes:
        return None
    try:
        run([jax.ShapeDtypeStruct(struct.shape[1:], struct.dtype) for struct in structs])
    except DIMENSION_ERRORS:
        return None
    return UnsupportedError(
        f"the function cannot be traced: {text}; it can be without the first dimension, "
        f"{sizes.pop()}: where that is a batch, convert jax.vmap(function)",
        line,
    )


def _substitute_sizes(
    struct: jax.ShapeDtypeStruct, numbers: Mapping[str, int | str]
) -> jax.ShapeDtypeStruct:
    """Return a type with numbers, or other dimensions as text, in place of named dimensions. Names
    that are not in ``numbers`` are kept."""
    if not any(map(is_symbolic, struct.shape)):
        return struct
    (scope,) = {dim.scope for dim in struct.shape if is_symbolic(dim)}
    text = ",".join(
        re.sub(r"[A-Za-z_]\w*", lambda word: str(numbers.get(word[0], word[0])), str(dim))
        for dim in struct.shape
    )
    return jax.ShapeDtypeStruct(export.symbolic_shape(text, scope=scope), struct.dtype)


def _dimension_error(
    names: Sequence[str],
    advice: str,
    text: str,
    line: str,
    subject: str = "the function cannot be traced",
) -> UnsupportedError:
    """Return the error for something that is impossible with these named dimensions.

    Arguments:
        names: the dimensions that are the cause.
        advice: a sentence that tells the user what to do; "" to derive it from ``text``.
        text: the first line of the original error.
        line: the user's source line.
        subject: the beginning of the message, before "with the dimension 'B'".
    """
    dimension_text = f"dimension{'s' if len(names) > 1 else ''} {' and '.join(map(repr, names))}"
    return UnsupportedError(
        f"{subject} with the {dimension_text}: {text}; {advice or _advice(text, names)}", line
    )


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its class if the message is
    empty."""
    return str(error).strip().partition("\n")[0].rstrip(".:") or type(error).__name__


def _advice(text: str, names: Sequence[str]) -> str:
    """Return what to do about an error of JAX for named dimensions, by the first line of its
    message.

    It is the advice of `_known_advice`, or else to give a fixed size for the names.
    """
    name_text = " and ".join(map(repr, names))
    return _known_advice(text) or (
        f"Python and numpy need a number there: give one for {name_text} in specs, or compute with "
        "the size in jax.numpy"
    )


def _known_advice(text: str) -> str:
    """Return what to do about an error of JAX, by the first line of its message.

    The advice is a constraint for a comparison or a remainder that JAX cannot decide, or another
    form of ``jnp.arange``. It is empty for other messages.
    """
    if comparison_match := _COMPARED.search(text):
        return _suggest_comparison(*comparison_match.groups())
    if remainder_match := _REMAINDER.search(text):
        name, factor = remainder_match.groups()
        return f"if it always is a multiple, say so: constraints=['mod({name}, {factor}) == 0']"
    if arange_match := _ARANGE.search(text):
        integer, fraction = divmod(float(arange_match[1]), 1)
        return (
            f"start from a whole number: jnp.arange({integer:g}, {arange_match[2]}) + {fraction:g}"
        )
    return ""


def _suggest_comparison(left: str, comparison: str, right: str) -> str:
    """Return the advice to add one of two constraints, which decide a comparison of dimensions.

    ``left`` and ``right`` are dimensions as text; ``comparison`` is ``>``, ``<=``, ``>=`` or ``<``.
    """
    next_larger, next_smaller = _plus(right, 1), _plus(right, -1)
    yes, no = {
        ">": (f">= {next_larger}", f"<= {right}"),
        "<=": (f"<= {right}", f">= {next_larger}"),
        ">=": (f">= {right}", f"<= {next_smaller}"),
        "<": (f"<= {next_smaller}", f">= {right}"),
    }[comparison]
    return f"say which it is: constraints=['{left} {yes}'] or ['{left} {no}']"


def _plus(dim: str, number: int) -> str:
    """Return a dimension plus a number as text: "9" for "8" and 1, "B +1" for "B" and 1."""
    return str(int(dim) + number) if dim.lstrip("-").isdigit() else f"{dim} {number:+}"
