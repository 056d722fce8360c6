"""``lax.map`` over a function is fused as ``jax.vmap`` of it is: a loop hides no structure."""

import pytest

from tests.converter.test_made_up_targets import FUSED
from tests.programs.test_programs import PLAIN
from tests.programs.ways import wrapped

FUSING = {name: case for name, case in PLAIN.items() if any(map(case.ops.get, FUSED))}
"""Programs of which a fused operator is expected."""
DEFAULT = {
    next((name for name, case in FUSING.items() if case.ops.get(operator)), None)
    for operator in FUSED
}
"""The first of these programs for each operator."""
DIFFERENT = {
    **dict.fromkeys(
        (
            "resize vmaps of (1, 0, 2)",
            "sampling vmap of points along axis 1, twice, one array",
            "sampling vmap of images, points, channels, one array",
            "sampling vmap of images, points, channels, two arrays",
        ),
        "with one vmap more there are more ways to batch than are tried",
    ),
    "resize in the steps of a scan": "a scan with a state in a map is batched with its body",
}
"""Programs whose map and vmap are fused differently, with the reason."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in DEFAULT else pytest.mark.full) for name in FUSING],
)
def test_maps_are_fused_as_vmaps_are(name: str):
    """The report counts the same fused operators for `lax.map` and `jax.vmap`."""
    of_vmap, of_map = (
        wrapped(FUSING[name], way).export().report.fused for way in ("vmap0", "scan")
    )
    assert (of_map == of_vmap) == (name not in DIFFERENT), (of_map, of_vmap)
