"""The list of all kinds of steps, and how often each is tried.

A kind is a function that writes a line of Python, or a line with gaps in braces, in a table of
`weight name line` (and of `NAME = part` for what many of its lines share, as `{NAME}`):

- `{x:fi1-3!&}` is a value of these kinds (`*` is any), of these ranks (`2`, `1+`), of fixed sizes
  (`!`), not empty (`&`); then `{x}` is the same again;
- `{axis x}`, `{place x}`, `{axes x}`, `{over x}` are axes of it, counted from either end, from the
  front, several of them, or what a reduction takes; `{near x}` is mostly the last one;
- `{like x}` and `{broad x}` are values that fit it, `{of x bool}` is one of its shape;
- `{last x}` and `{loss x}` are functions of it, the second one gives a number; families have more
  of these in `OF_A_VALUE`, some also of an axis, as in `{along x a}`, a vector that fits there;
- `{shaped x …}` is a value of its dtype, `{truths x …}` of booleans, whose dimensions are numbers,
  dimensions of `x` (`-1` is its last) or all of them but the last two (`*2`);
- `{1..3}`, `{size}`, `{number}` and `{dtype}` are drawn, `{a|b}` is one of these;
- `{n=…}` is any of them, and `{n}` the same again; before ` => ` it is drawn and not written.

Gaps may hold gaps. Values are drawn first, then the rest from the left.
"""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from tests.fuzz.draw import Draw, Unfit
from tests.fuzz.program import Shape

Maker: TypeAlias = Callable[[Draw], str]

STEPS: list[Maker] = []
WEIGHTS: list[float] = []

VALUE = re.compile(r"\{(\w):([fiub*]+)(\d?)(\+|-\d|)(!?)(&?)\}")


def step(weight: float = 1.0) -> Callable[[Maker], Maker]:
    """Register a kind of step."""

    def register(maker: Maker) -> Maker:
        STEPS.append(maker)
        WEIGHTS.append(weight)
        return maker

    return register


def lines(table: str) -> None:
    """Register the kinds of steps of a table. What is indented goes on with the line above it."""
    parts: dict[str, str] = {}
    whole = re.sub(r"\n +", " ", re.sub(r"\n +\|", "|", table))
    for line in re.findall(r"^[^#\n].*", whole, re.MULTILINE):
        first, name, text = line.split(" ", 2)
        text = re.sub(r"\{([A-Z_]+)\}", lambda found: parts[found[1]], text)
        if name == "=":
            parts[first] = text
            continue

        def maker(d: Draw, text: str = text) -> str:
            return filled(d, text)

        maker.__name__ = name
        step(float(Fraction(first)))(maker)


def filled(d: Draw, text: str) -> str:
    """A line without gaps."""
    known: dict[str, str] = {}

    def value(found: re.Match[str]) -> str:
        name, kinds, low, more, fixed, full = found.groups()
        least = int(low or 0)
        most = least if low and not more else int(more[1:] or 9)
        kinds = "fiub" if kinds == "*" else kinds
        known[name] = d.any(kinds, (least, most), static=bool(fixed))
        if full and 0 in d.pool[known[name]].shape:
            raise Unfit
        return known[name]

    return expanded(d, VALUE.sub(value, text), known).rpartition(" => ")[2]


def expanded(d: Draw, text: str, known: dict[str, str]) -> str:
    """The text with what is drawn for its gaps, from the left."""
    while "{" in text:
        before, _, rest = text.partition("{")
        name, options, after = gap(rest)
        written = expanded(d, d.rng.choice(options), known)
        if len(options) == 1:
            written = known[written] if written in known else drawn(d, written, known)
        if name:
            known[name] = written
        text = f"{before}{written}{after}"
    return text


def gap(text: str) -> tuple[str, list[str], str]:
    """What a gap is called, what may stand there, and the text after it."""
    name = text[0] if text[1:2] == "=" and text[0].isalpha() else ""
    depth, options = 0, [""]
    for place, letter in enumerate(text):
        if letter == "}" and not depth:
            options[0] = options[0].removeprefix(f"{name}=") if name else options[0]
            return name, options, text[place + 1 :]
        depth += (letter == "{") - (letter == "}")
        if letter == "|" and not depth:
            options.append("")
        else:
            options[-1] += letter
    raise ValueError(text)


def drawn(d: Draw, part: str, known: Mapping[str, str]) -> str:
    """What stands in a gap of one option."""
    if re.fullmatch(r"-?\d+\.\.\d+", part):
        return str(d.integer(*map(int, part.split(".."))))
    what, *about = part.split()
    if what in OF_A_VALUE:
        return str(OF_A_VALUE[what](d, *(known.get(name, name) for name in about)))
    plain = {"number": d.number, "dtype": d.dtype, "size": d.size}
    return str(plain.get(part, lambda: part)())


def over(d: Draw, x: str) -> object:
    if d.chance(0.15):
        return None
    return d.axis(x) if d.chance(0.6) else d.axes(x)


def near(d: Draw, x: str) -> int:
    return -1 if d.chance(0.6) else d.axis(x)


def dims(d: Draw, x: str, *written: str) -> Shape:
    shape = d.pool[x].shape
    found: list[int | str] = []
    for each in written:
        if each.startswith("*"):
            found += shape[: -int(each[1:])]
        else:
            found.append(shape[int(each)] if int(each) < 0 else int(each))
    return tuple(found)


def each(of_size: Callable[[Draw, Any], object]) -> Callable[[Draw, str], str]:
    """A tuple with something for each axis."""
    return lambda d, x: f"({''.join(f'{of_size(d, n)}, ' for n in d.pool[x].shape)})"


def last(d: Draw) -> str:
    """One of the values that a function made last."""
    made = [n for n in d.pool if n.startswith("v")]
    if not made:
        raise Unfit
    return d.rng.choice(made[-2:])


def loss(d: Draw) -> str:
    """A scalar of the floats that were made."""
    made = [n for n, s in d.pool.items() if n.startswith("v") and s.kind == "f"]
    if not made:
        raise Unfit
    value = d.rng.choice(made[-2:])
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
