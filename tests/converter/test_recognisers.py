"""Recognisers on axes of size one, under every transformation, compared with axes of size three."""

import pytest

import converter
from tests.programs.spellings import SPELLINGS
from tests.programs.ways import wrapped

RESHAPES = ("Reshape", "Squeeze", "Unsqueeze")

TRANSPOSED = {("rotary, eqx_heads", "vmap-1", 18)}
"""Spelling, transformation and opset of programs that have fewer nodes with an axis of one.

With an axis of three they have two transpositions more.
"""


@pytest.mark.each()
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("transformation", ["vmap0", "vmap1", "vmap-1", "nested"])
@pytest.mark.parametrize("case", SPELLINGS, ids=lambda case: case.name)
def test_axes_of_one_are_fused_like_longer_axes(case, transformation, opset):
    """The same operators are fused, and no more nodes remain; reshapes are not counted.

    A reshape may replace a transposition of an axis of one.
    """
    is_transposed, case = (
        (case.name, transformation, opset) in TRANSPOSED,
        wrapped(case, transformation),
    )
    axis = 0 if transformation == "nested" else int(transformation.removeprefix("vmap"))
    reports = []
    for size in (3, 1):
        specs = [list(shape) for shape in case.specs]
        for shape in specs:
            shape[axis] = size
        reports.append(converter.to_onnx(case.fn, specs, opset=opset).report)
    report_of_three, report_of_one = reports
    assert report_of_one.fused == report_of_three.fused
    count_of_three, count_of_one = (
        sum(count for name, count in report.histogram.items() if name not in RESHAPES)
        for report in (report_of_three, report_of_one)
    )
    assert (count_of_one > count_of_three) == is_transposed
