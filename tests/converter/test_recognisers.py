"""An axis of one is one of many to recognisers, under every transformation."""

import pytest

import converter
from tests.programs.spellings import SPELLINGS
from tests.programs.ways import wrapped

RESHAPES = ("Reshape", "Squeeze", "Unsqueeze")


@pytest.mark.each()
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("how", ["vmap0", "vmap1", "vmap-1", "nested"])
@pytest.mark.parametrize("case", SPELLINGS, ids=lambda case: case.name)
def test_axes_of_one(case, how, opset):
    """But that what gives elements another shape may stand for a transposition."""
    case = wrapped(case, how)
    axis = 0 if how == "nested" else int(how.removeprefix("vmap"))
    reports = []
    for size in (3, 1):
        sized = [list(shape) for shape in case.specs]
        for shape in sized:
            shape[axis] = size
        reports.append(converter.to_onnx(case.fn, sized, opset=opset).report)
    many, one = reports
    assert one.fused == many.fused
    for name, count in one.histogram.items():
        assert name in RESHAPES or count <= many.histogram.get(name, 0), name
