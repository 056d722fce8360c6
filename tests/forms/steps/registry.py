"""All forms of steps, and the weights with which they are drawn.

A form is a function that writes a line of Python, or a line with gaps in braces. Such lines are in
tables, as `weight name line`. `NAME = part` in a table defines a part that several lines contain as
`{NAME}`. The gaps are:

- `{x:fi1-3!&}` is a value of these kinds (`*` is any kind) and ranks (`2`, `1+`), without named
  dimensions (`!`), not empty (`&`). After it `{x}` is the same value.
- `{axis x}`, `{place x}`, `{axes x}` and `{over x}` are axes of `x`: one counted from either end,
  one counted from the front, several, and the axes of a reduction. `{near x}` is mostly the last
  axis.
- `{like x}` has the type of `x`, `{broad x}` broadcasts against `x`, and `{of x bool}` has its
  shape.
- `{last x}` and `{loss x}` are functions of a value like `x`; the second returns a scalar. The
  modules of steps add more of these to `OF_A_VALUE`. Some also take an axis, as in `{along x a}`, a
  vector of the size of axis `a`.
- `{shaped x …}` has the dtype of `x`, and `{truths x …}` is of booleans. Their dimensions are
  numbers, dimensions of `x` (`-1` is its last) or all dimensions of `x` but the last two (`*2`).
- `{1..3}`, `{size}`, `{number}` and `{dtype}` are drawn, and `{a|b}` is one of its options.
- `{n=…}` names the text of a gap, and `{n}` repeats it. Before ` => ` gaps are drawn, but not
  written.

Gaps may contain gaps. Values are drawn first, then the other gaps from the left.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

from tests.forms.draw import Draw, Unfit
from tests.forms.program import Shape

Maker: TypeAlias = Callable[[Draw], str]


@dataclass(frozen=True)
class Form:
    """A form of a step: the function that writes its line, and the weight with which it is drawn.
    ``text`` is the line with its gaps, and empty if the form is a function of this package."""

    name: str
    weight: float
    write: Maker
    text: str = ""


FORMS: dict[str, Form] = {}
"""All forms by name."""

VALUE = re.compile(r"\{(\w):([fiub*]+)(\d?)(\+|-\d|)(!?)(&?)\}")


def step(weight: float = 1.0) -> Callable[[Maker], Maker]:
    """Register a form of a step, which is drawn with this weight."""

    def register(maker: Maker) -> Maker:
        add(Form(maker.__name__, weight, maker))
        return maker

    return register


def add(form: Form) -> None:
    """Register a form. Raises `ValueError` if its name is taken."""
    if form.name in FORMS:
        raise ValueError(f"two forms are named {form.name}")
    FORMS[form.name] = form


def lines(table: str) -> None:
    """Register the forms of a table. An indented line continues the line above it."""
    parts: dict[str, str] = {}
    joined = re.sub(r"\n +", " ", re.sub(r"\n +\|", "|", table))
    for line in re.findall(r"^[^#\n].*", joined, re.MULTILINE):
        first, name, text = line.split(" ", 2)
        text = re.sub(r"\{([A-Z_]+)\}", lambda match: parts[match[1]], text)
        if name == "=":
            parts[first] = text
            continue
        add(Form(name, float(Fraction(first)), partial(filled, text=text), text))


def filled(d: Draw, text: str) -> str:
    """Return a line with its gaps filled."""
    known: dict[str, str] = {}

    def value(match: re.Match[str]) -> str:
        name, kinds, low, more, fixed, full = match.groups()
        least = int(low or 0)
        most = least if low and not more else int(more[1:] or 9)
        kinds = "fiub" if kinds == "*" else kinds
        known[name] = d.any(kinds, (least, most), static=bool(fixed))
        if full and 0 in d.pool[known[name]].shape:
            raise Unfit
        return known[name]

    return expanded(d, VALUE.sub(value, text), known).rpartition(" => ")[2]


def expanded(d: Draw, text: str, known: dict[str, str]) -> str:
    """Return the text with its gaps filled, from the left."""
    while "{" in text:
        before, _, rest = text.partition("{")
        name, options, after = gap(rest)
        filling = expanded(d, options[0] if len(options) == 1 else d.choice(*options), known)
        if len(options) == 1:
            filling = known[filling] if filling in known else drawn(d, filling, known)
        if name:
            known[name] = filling
        text = f"{before}{filling}{after}"
    return text


def gap(text: str) -> tuple[str, list[str], str]:
    """Return the name of a gap, its options, and the text after it."""
    name = text[0] if text[1:2] == "=" and text[0].isalpha() else ""
    depth, options = 0, [""]
    for position, letter in enumerate(text):
        if letter == "}" and not depth:
            options[0] = options[0].removeprefix(f"{name}=") if name else options[0]
            return name, options, text[position + 1 :]
        depth += (letter == "{") - (letter == "}")
        if letter == "|" and not depth:
            options.append("")
        else:
            options[-1] += letter
    raise ValueError(text)


def drawn(d: Draw, part: str, known: Mapping[str, str]) -> str:
    """Return the text for a gap with one option."""
    if re.fullmatch(r"-?\d+\.\.\d+", part):
        return str(d.integer(*map(int, part.split(".."))))
    function, *names = part.split()
    if function in OF_A_VALUE:
        return str(OF_A_VALUE[function](d, *(known.get(name, name) for name in names)))
    plain = {"number": d.number, "dtype": d.dtype, "size": d.size}
    return str(plain.get(part, lambda: part)())


def over(d: Draw, x: str) -> object:
    """Return the axes of a reduction: None for all, one axis or several."""
    if d.chance(0.15):
        return None
    return d.axis(x) if d.chance(0.6) else d.axes(x)


def near(d: Draw, x: str) -> int:
    """Return an axis, mostly the last one."""
    return -1 if d.chance(0.6) else d.axis(x)


def dims(d: Draw, x: str, *written: str) -> Shape:
    """Return the dimensions that a gap of the form `{shaped x …}` lists."""
    shape = d.pool[x].shape
    dimensions: list[int | str] = []
    for item in written:
        if item.startswith("*"):
            dimensions += shape[: -int(item[1:])]
        else:
            dimensions.append(shape[int(item)] if int(item) < 0 else int(item))
    return tuple(dimensions)


def tuple_of(of_size: Callable[[Draw, Any], object]) -> Callable[[Draw, str], str]:
    """Return a function that writes a tuple with an item for each axis of a value."""
    return lambda d, x: f"({''.join(f'{of_size(d, n)}, ' for n in d.pool[x].shape)})"


def last(d: Draw) -> str:
    """Return one of the last two results of a function's steps."""
    results = [n for n in d.pool if n.startswith("v")]
    if not results:
        raise Unfit
    return d.pick(results[-2:])


def loss(d: Draw) -> str:
    """Return a scalar expression of one of the last floats among a function's results."""
    floats = [n for n, s in d.pool.items() if n.startswith("v") and s.kind == "f"]
    if not floats:
        raise Unfit
    value = d.pick(floats[-2:])
    return f"jnp.sum({value}" + d.choice(")", " ** 2)", " * 0.3)", ").astype('float32')")


OF_A_VALUE: dict[str, Callable[..., object]] = {
    "axis": Draw.axis,
    "place": lambda d, x: d.axis(x, negative=False),
    "axes": Draw.axes,
    "over": over,
    "near": near,
    "like": Draw.like,
    "broad": Draw.broadcastable,
    "of": lambda d, x, dtype: d.of(d.pool[x].shape, dtype),
    "along": lambda d, x, axis: d.of((d.pool[x].shape[int(axis)],), d.pool[x].dtype),
    "shaped": lambda d, x, *more: d.of(dims(d, x, *more), d.pool[x].dtype),
    "truths": lambda d, x, *more: d.of(dims(d, x, *more), "bool"),
    "last": lambda d, x: d.function([d.pool[x]], last),
    "loss": lambda d, x: d.function([d.pool[x]], loss),
}
