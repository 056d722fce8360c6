"""The list of all kinds of steps, and how often each is tried.

A kind is a function that writes a line of Python, or a line with gaps in braces:

- `{x:fi1-3!&}` is a value of these kinds (`*` is any), of these ranks (`2`, `1+`), of fixed sizes
  (`!`), not empty (`&`); then `{x}` is the same again;
- `{axis x}`, `{place x}`, `{axes x}`, `{over x}` are axes of it, counted from either end, from the
  front, several of them, or what a reduction takes; `{near x}` is mostly the last one;
- `{like x}` and `{broad x}` are values that fit it, `{of x bool}` is one of its shape;
- `{last x}` and `{loss x}` are functions of it, the second one gives a number; families have more
  of these in `OF_A_VALUE`, some also of an axis, as in `{along x a}`, a vector that fits there;
- `{1..3}`, `{number}` and `{dtype}` are drawn, `{a|b}` is one of these;
- `{n=…}` is any of them, and `{n}` the same again; before ` => ` it is drawn and not written.

Gaps may hold gaps. Values come before the rest, and what a gap needs before the gap.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tests.fuzz.draw import Draw
from tests.fuzz.pool import Unfit

Maker: TypeAlias = Callable[[Draw], str]

STEPS: list[Maker] = []
WEIGHTS: list[float] = []

VALUE = re.compile(r"\{(\w):([fiub*]+)(\d?)(\+|-\d|)(!?)(&?)\}")
GAP = re.compile(r"\{(?:(\w)=)?([^{}]*)\}")


def step(weight: float = 1.0) -> Callable[[Maker], Maker]:
    """Register a kind of step."""

    def register(maker: Maker) -> Maker:
        STEPS.append(maker)
        WEIGHTS.append(weight)
        return maker

    return register


def needed(part: str) -> set[str]:
    """The values that stand in a gap."""
    return {word for word in part.split() if len(word) == 1 and word.islower()}


def lines(**table: tuple[float, str]) -> None:
    """Register kinds of steps by name, each with its weight and its line."""
    for name, (weight, text) in table.items():

        def maker(d: Draw, text: str = text) -> str:
            return filled(d, text)

        maker.__name__ = name
        step(weight)(maker)


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

    def gap(found: re.Match[str]) -> str:
        name, part = found.groups()
        if "|" not in part and not needed(part) <= known.keys():
            return found[0]
        written = known[part] if part in known else drawn(d, part, known)
        if name:
            known[name] = written
        return written

    text = VALUE.sub(value, text)
    while GAP.search(text):
        text = GAP.sub(gap, text)
    return text.rpartition(" => ")[2]


def drawn(d: Draw, part: str, known: Mapping[str, str]) -> str:
    """What stands in a gap."""
    if "|" in part:
        return d.rng.choice(part.split("|"))
    if ".." in part:
        return str(d.integer(*map(int, part.split(".."))))
    what, *about = part.split()
    if what in OF_A_VALUE:
        return str(OF_A_VALUE[what](d, *(known.get(name, name) for name in about)))
    return {"number": d.number, "dtype": d.dtype}.get(part, lambda: part)()


def over(d: Draw, x: str) -> object:
    if d.chance(0.15):
        return None
    return d.axis(x) if d.chance(0.6) else d.axes(x)


def near(d: Draw, x: str) -> int:
    return -1 if d.chance(0.6) else d.axis(x)


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
    "last": lambda d, x: d.function([d.pool[x]], last),
    "loss": lambda d, x: d.function([d.pool[x]], loss),
}
