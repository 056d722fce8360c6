"""All programs by subject and name, and rows for `pytest.mark.parametrize`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.conformance import DEFAULT, Case
from tests.programs import (
    attention,
    calls,
    channels,
    collectives,
    complex_numbers,
    computations,
    control,
    decompositions,
    deviations,
    edges,
    elementwise,
    forms,
    found,
    indexing,
    layers,
    layouts,
    lookalikes,
    named,
    primitives,
    public,
    published,
    recurrent,
    reduce,
    resize,
    sampling,
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
        *(attention, channels, lookalikes, named, recurrent, published, edges),
        *(primitives, deviations, sampling, forms),
    )
}

BY_COVERAGE = frozenset(
    {
        *("attention along keys", "attention written, by index, 3 -40 at 24"),
        *("calls another platform", "calls buffers, gradient", "calls unvmap", "calls while"),
        *(
            "calls xla_metadata",
            "computations over a named axis",
            "found derivative of a comparison",
        ),
        *("found dot of float64", "found reduced over one", "found rotated float64"),
        *("found slope of cummin", "indexing apply to named rows", "indexing named padding"),
        *("indexing scatter 2", "named kernels of (3, 4, 2, 2)", "named kernels of (4, 1, 3, 2)"),
        *("named without two", "public numpy.fft.irfft", "public scipy.linalg.qr_multiply"),
        *("recurrent gradient", "recurrent on top", "resize nearest to multiples"),
        *("resize nearest True (13, 17) to (4, 17) at 18", "window sum, padded far, dilated"),
        *("attention heated, float16", "decompositions cholesky, complex"),
        *("decompositions svd, complex", "deviations attention of float64"),
        *("forms scan_of_branches 1", "forms softmax_shifted 6", "found variance of nothing"),
        *("public random.t", "public scipy.special.sph_harm_y", "resize cubic volume"),
        *("resize derivative", "spellings attention, jax_local, bfloat16"),
        *("named layer norm of a square", "window negative padding"),
    }
)
"""Programs that the default tests run because no other program reaches some lines or branches of
the converter or some decomposition."""


def _tagged(name: str, case: Case) -> Case:
    return replace(case, tags=case.tags | DEFAULT) if name in BY_COVERAGE else case


PROGRAMS = {
    name: _tagged(name, case)
    for subject, cases in SUBJECTS.items()
    for case in cases
    for name in [f"{subject} {case.name}"]
}


def tiers(judge: str, cases: Mapping[str, Case] = PROGRAMS) -> list[pytest.param]:
    """Return a row for each case. Rows of cases without the tag ``judge`` are marked `full`."""
    return [
        pytest.param(
            case,
            id=name,
            marks=(*needs(case.since), *(() if judge in case.tags else (pytest.mark.full,))),
        )
        for name, case in cases.items()
    ]


def of(*subjects: str) -> dict[str, Case]:
    """Return the programs of some subjects."""
    return {
        name: case
        for name, case in PROGRAMS.items()
        if name.startswith(tuple(f"{s} " for s in subjects))
    }


def at_opsets(judge: str, cases: Mapping[str, Case] = PROGRAMS) -> list[pytest.param]:
    """Return a row for each case and opset, with the marks of `tiers`."""
    return [
        pytest.param(*row.values, opset, id=f"{row.id} {opset}", marks=row.marks)
        for row in tiers(judge, cases)
        for opset in row.values[0].opsets
    ]
