"""Programs of one line each, which take between them each alternative of each line of forms.

An alternative is an option of a gap, also of a gap in another option. Each line takes in every gap
the first option that still has an alternative that no line before it has, so that a form has about
as many lines as its largest gap has alternatives. A form that is a function has a line for each
option of its choices, and at most `MAX_LINES`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from tests.forms.draw import Draw, Limits, ProgramState, Unfit
from tests.forms.program import NAME, Program, Spec, Step, live
from tests.forms.steps import FORMS, Form
from tests.forms.steps.branches import EXPRESSIONS
from tests.forms.steps.registry import VALUE, filled, gap

INPUTS = {
    "x0": Spec((3, 4), "float32"),
    "x1": Spec((2, 4, 3), "float32"),
    "x2": Spec((2, 4, 6, 4), "float32"),
    "x3": Spec((3,), "float32"),
    "x4": Spec((3, 4), "int32"),
    "x5": Spec((3, 4), "bool"),
    "x6": Spec((3,), "uint8"),
}
"""The values that lines read. A line may add further ones."""

LIMITS = Limits((1, 1), inputs=16, weights={"power_of_number": 3, "logical_not": 1})
"""Nested functions have one of these steps."""

MAX_LINES = 4
"""The largest number of lines of a form that is a function."""

ATTEMPTS = 100
"""The number of seeds that are tried before a form is unfit."""

WORD = re.compile(r"[A-Za-z][\w.]+")
"""An alternative that names the program of which it is the first new one."""

Options = Sequence[Any]


def gaps(text: str) -> Iterator[list[str]]:
    """Yield the options of each gap of a text that has several. Gaps in options are left out."""
    while "{" in text:
        _, options, text = gap(text.partition("{")[2])
        if len(options) > 1:
            yield options
        else:
            yield from gaps(options[0])


class Chooser:
    """Choose options so that each alternative is taken once."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []
        """The options of gaps, and those of them that were taken."""

    def has_remaining(self, text: str) -> bool:
        """Return whether a text has an alternative that was not taken."""
        return any(self._is_open(options, option) for options in gaps(text) for option in options)

    def _is_open(self, options: Options, option: Any) -> bool:
        is_taken = _alternative(options, option) in self.taken
        return not is_taken or (isinstance(option, str) and self.has_remaining(option))

    def choose(self, d: Draw, options: Options) -> Any:
        """Return the first option that has an alternative left, or any if none has."""
        remaining = [option for option in options if self._is_open(options, option)]
        option = remaining[0] if remaining else d.pick(options)
        if _alternative(options, option) not in self.taken:
            self.taken.append(_alternative(options, option))
        return option


def _alternative(options: Options, option: Any) -> tuple[str, str]:
    """Return the options of a gap and one of them, without the names of values."""
    return _nameless("|".join(map(str, options))), _nameless(str(option))


def _alternatives(text: str) -> Iterator[tuple[str, str]]:
    """Yield all alternatives of a text."""
    for options in gaps(text):
        for option in options:
            yield _alternative(options, option)
            yield from _alternatives(option)


def _nameless(text: str) -> str:
    return NAME.sub("x", VALUE.sub("x", text))


def programs(form: Form, seeds: Mapping[str, int]) -> Iterator[tuple[str, Program]]:
    """Yield programs of one line that take between them each alternative of a form. A name is that
    of the form with the first new alternative, or with a number. ``seeds`` gives the first seed
    that is tried for a name, if it is not zero."""
    chooser, names = Chooser(), set[str]()
    for number in range(100 if form.text else MAX_LINES):
        taken = list(chooser.taken)
        name, program = _program(form, chooser, number, seeds, names)
        if number and chooser.taken == taken:
            return
        names.add(name)
        yield name, program
        if form.text and not chooser.has_remaining(form.text):
            return


def _program(
    form: Form, chooser: Chooser, number: int, seeds: Mapping[str, int], names: set[str]
) -> tuple[str, Program]:
    """Return the next program of a form and its name. The values are drawn from a seed that depends
    on the name of the form."""
    taken = list(chooser.taken)
    for attempt in range(ATTEMPTS):
        chooser.taken = list(taken)
        with suppress(Unfit, LookupError, ValueError):
            program = _line(form, chooser, Random(f"{form.name} {number} {attempt}"))
            name = _name(form, chooser.taken[len(taken) :], number, names)
            if attempt >= seeds.get(name, 0):
                return name, program
    raise ValueError(f"no line of {form.name} fits")


def _name(form: Form, new: list[tuple[str, str]], number: int, names: set[str]) -> str:
    of_form = {*_alternatives(form.text)}
    words = [f"{form.name} {a[1]}" for a in new if a in of_form and WORD.fullmatch(a[1])]
    plain = f"{form.name} {number}" if number else form.name
    return words[0] if words and words[0] not in names else plain


def _line(form: Form, chooser: Chooser, rng: Random) -> Program:
    """Return a program of one line. All values that it reads are inputs."""
    state = ProgramState(rng, LIMITS, x64=False, symbolic=False)
    state.choose, state.count = chooser.choose, len(INPUTS)
    d = Draw(state, {})
    for name, spec in INPUTS.items():
        state.inputs[name] = spec
        d.add(name, spec)
    step = Step(("y",), form.write(d), tuple(d.bodies), form.name)
    return live(Program({**state.inputs, **state.weights}, {}, (step,), ("y",)))


def table(seeds: Mapping[str, int]) -> dict[str, Program]:
    """Return all programs by name. Expressions of indices, predicates, numbers and branches have
    lines of their own."""
    expressions = [
        Form(name, 1, lambda d, text=text: filled(d, text), text)
        for name, text in EXPRESSIONS.items()
    ]
    forms = [*FORMS.values(), *expressions]
    return {name: program for form in forms for name, program in programs(form, seeds)}
