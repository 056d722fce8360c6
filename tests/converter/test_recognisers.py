"""Recognisers on axes of size one, under every transformation, compared with axes of size three."""

import pytest

import converter
from tests.programs.spellings import SPELLINGS
from tests.programs.ways import wrapped

RESHAPES = ("Reshape", "Squeeze", "Unsqueeze")

TRANSPOSED = {
    ("rotary, eqx_heads", "vmap-1", 18),
    ("resize, lanczos3", "vmap1", 18),
    ("resize, lanczos3", "vmap1", 23),
}
"""Spelling, transformation and opset of programs that have more nodes with an axis of one.

They have one or two transpositions more than with an axis of three.
"""

FUSED_ALONE = {("sampling, heads", "nested")}
"""Spelling and transformation of programs that are fused with an axis of one only.

With longer axes, more batches are nested than the recogniser tries.
"""


@pytest.mark.each()
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("transformation", ["vmap0", "vmap1", "vmap-1", "nested"])
@pytest.mark.parametrize("case", SPELLINGS, ids=lambda case: case.name)
def test_axes_of_one_are_fused_like_longer_axes(case, transformation, opset):
    """The same operators are fused, and no more nodes remain; reshapes are not counted.

    A reshape may replace a transposition of an axis of one.
    """
    name, case = case.name, wrapped(case, transformation)
    is_transposed = (name, transformation, opset) in TRANSPOSED
    axis = 0 if transformation == "nested" else int(transformation.removeprefix("vmap"))
    reports = []
    for size in (3, 1):
        specs = [list(shape) for shape in case.specs]
        for shape in specs:
            shape[axis] = size
        reports.append(converter.to_onnx(case.fn, specs, opset=opset).report)
    report_of_three, report_of_one = reports
    is_fused_alone = (name, transformation) in FUSED_ALONE
    assert (report_of_one.fused != report_of_three.fused) == is_fused_alone
    assert report_of_one.fused >= report_of_three.fused
    count_of_three, count_of_one = (
        sum(count for name, count in report.histogram.items() if name not in RESHAPES)
        for report in (report_of_three, report_of_one)
    )
    assert (count_of_one > count_of_three) == is_transposed


@pytest.mark.parametrize("axis", [0, 1])
def test_sampling_in_a_batch_of_one_is_fused(axis):
    """A gather in a batch of one does not tell that image and coordinates share the batch."""
    case = next(case for case in SPELLINGS if case.name == "sampling, warped")
    batched = wrapped(case, f"vmap{axis}")
    specs = [list(shape) for shape in batched.specs]
    for shape in specs:
        shape[axis] = 1
    report = converter.to_onnx(batched.fn, specs, verify=True).report
    assert report.fused == {"GridSample": 1}
