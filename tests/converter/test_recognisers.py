"""An axis of one is one of many to recognisers, under every transformation."""

import pytest

import converter
from tests.programs.spellings import SPELLINGS
from tests.programs.ways import wrapped

RESHAPES = ("Reshape", "Squeeze", "Unsqueeze")

KEPT = {("rotary, eqx_heads", "vmap-1", 18)}
"""What has two transpositions more: by an axis of one, they are none that can be left out."""


@pytest.mark.each()
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("how", ["vmap0", "vmap1", "vmap-1", "nested"])
@pytest.mark.parametrize("case", SPELLINGS, ids=lambda case: case.name)
def test_axes_of_one(case, how, opset):
    """But that what gives elements another shape may stand for a transposition."""
    is_kept, case = (case.name, how, opset) in KEPT, wrapped(case, how)
    axis = 0 if how == "nested" else int(how.removeprefix("vmap"))
    reports = []
    for size in (3, 1):
        sized = [list(shape) for shape in case.specs]
        for shape in sized:
            shape[axis] = size
        reports.append(converter.to_onnx(case.fn, sized, opset=opset).report)
    many, one = reports
    assert one.fused == many.fused
    more, fewer = (
        sum(count for name, count in report.histogram.items() if name not in RESHAPES)
        for report in (many, one)
    )
    assert (fewer > more) == is_kept
