"""All programs, by subject and name, and how a judge walks over them."""

from collections.abc import Mapping, Sequence

import pytest

from tests.conformance import Case
from tests.programs import (
    attention,
    calls,
    channels,
    collectives,
    complex_numbers,
    computations,
    control,
    decompositions,
    elementwise,
    found,
    indexing,
    layers,
    layouts,
    lookalikes,
    named,
    public,
    recurrent,
    reduce,
    resize,
    spellings,
    uniform,
    window,
)
from tests.since import needs

SUBJECTS: Mapping[str, Sequence[Case]] = {
    module.__name__.rpartition(".")[2].replace("_", " "): module.PROGRAMS
    for module in (
        *(control, elementwise, indexing, layers, layouts, reduce, resize, window, computations),
        *(decompositions, complex_numbers, calls, collectives, found, spellings, uniform, public),
        *(attention, channels, lookalikes, named, recurrent),
    )
}
PROGRAMS = {f"{subject} {case.name}": case for subject, cases in SUBJECTS.items() for case in cases}


def tiers(judge: str, cases: Mapping[str, Case] = PROGRAMS) -> list[pytest.param]:
    """Rows of a judge; those that are tagged with its name are in the default tier."""
    return [
        pytest.param(
            case,
            id=name,
            marks=(*needs(case.since), *(() if judge in case.tags else (pytest.mark.full,))),
        )
        for name, case in cases.items()
    ]


def of(*subjects: str) -> dict[str, Case]:
    """The programs of some subjects."""
    return {
        name: case
        for name, case in PROGRAMS.items()
        if name.startswith(tuple(f"{s} " for s in subjects))
    }


def at_opsets(judge: str, cases: Mapping[str, Case] = PROGRAMS) -> list[pytest.param]:
    """The same at each opset of a program."""
    return [
        pytest.param(*row.values, opset, id=f"{row.id} {opset}", marks=row.marks)
        for row in tiers(judge, cases)
        for opset in row.values[0].opsets
    ]
