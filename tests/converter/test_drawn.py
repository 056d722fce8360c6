"""Random programs of the fuzzer whose operators need orders of axes, compared with JAX.

The layout pass must not add Transpose nodes to those on images.
"""

from collections import Counter
from random import Random

import jax
import pytest

import converter
from converter.pipeline import passes
from tests.forms.draw import Limits, draw
from tests.forms.program import Program, function
from tests.fuzz.judge import judge

IMAGES = {
    "convolution": 4,
    **dict.fromkeys(("convolution_transpose_2", "reduce_window", "average_pool", "resize"), 1),
    **dict.fromkeys(("unary_float", "binary", "batch_norm", "softmax_0"), 1),
    **dict.fromkeys(("transpose", "concatenate", "split", "pad", "flip", "reshape"), 1),
    **dict.fromkeys(("linear", "reduce", "cumulative"), 1),
}
"""Names of forms of steps, and how often each is drawn relative to the others."""

LIMITS = Limits((4, 9), (2, 3, 4, 6), IMAGES)

LAYOUTS = {
    **{"layout_chain": 4, "resize_between_layouts": 2, "resize_of_what_is_normalized": 1},
    **{"group_norm": 1, "batch_norm": 1, "gradient_of_layouts": 0.3, "convolution": 1},
    **dict.fromkeys(("transpose", "reshape", "binary", "concatenate", "pad"), 1),
}
"""Forms that need an order of axes or change it, and how often each is drawn."""

SEEDS = [
    range(6),
    *(pytest.param(range(n, n + 60), marks=pytest.mark.full) for n in range(6, 600, 60)),
]


@pytest.mark.parametrize("seeds", SEEDS)
def test_programs_on_images_have_no_additional_transposes(seeds, monkeypatch):
    """Files agree with JAX and have no more Transpose nodes than without the pass `channels`."""
    other_passes = tuple(r for r in passes.PASSES if getattr(r, "name", "") != "channels")
    for seed in seeds:
        program = draw(Random(f"images/{seed}"), LIMITS)
        verdict = judge(program)
        assert verdict.is_fine, f"images/{seed}: {verdict}"
        if verdict.kind in ("refused", "invalid"):
            continue
        with monkeypatch.context() as patch:
            patch.setattr(passes, "PASSES", other_passes)
            without_pass = count_transposes(program)
        assert count_transposes(program) <= without_pass, f"images/{seed}"


@pytest.mark.parametrize(
    "seeds",
    [
        range(6),
        *(pytest.param(range(n, n + 60), marks=pytest.mark.full) for n in range(6, 606, 60)),
    ],
)
def test_layouts_agree_with_jax(seeds):
    """Windows, norms and gathers between transpositions, reshapes, vmap and sums agree with JAX."""
    limits, kinds = Limits((2, 5), weights=LAYOUTS), Counter[str]()
    for seed in seeds:
        outcome = judge(draw(Random(f"layouts/{seed}"), limits))
        assert outcome.is_fine, f"layouts/{seed}: {outcome}"
        kinds[outcome.kind] += 1
    assert kinds["right"] >= 0.8 * len(seeds)


def count_transposes(program: Program) -> int:
    """Return the number of Transpose nodes in the file of a program."""
    fn, params = function(program)
    specs = [(spec.shape, spec.dtype) for spec in program.inputs.values()]
    with jax.enable_x64(program.x64):
        export = converter.to_onnx(fn, specs, params=params, opset=program.opset)
    return export.report.histogram.get("Transpose", 0)
