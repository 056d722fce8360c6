"""Programs of the fuzzer that are of images, in whatever order their axes are."""

import jax
import pytest

import converter
from converter.pipeline import passes
from tests.fuzz import steps
from tests.fuzz.draw import Limits, draw
from tests.fuzz.judge import judge
from tests.fuzz.program import Program, function

IMAGES = {
    "convolution": 4,
    **dict.fromkeys(("convolution_transpose_2", "reduce_window", "average_pool", "resize"), 1),
    **dict.fromkeys(("unary_float", "binary", "batch_norm", "softmax_0"), 1),
    **dict.fromkeys(("transpose", "concatenate", "split", "pad", "flip", "reshape"), 1),
    **dict.fromkeys(("linear", "reduce", "cumulative"), 1),
}
"""How often each kind of step is tried."""


def drawn(seed: str, monkeypatch: pytest.MonkeyPatch) -> Program:
    chosen = {step.__name__: step for step in steps.STEPS}
    with monkeypatch.context() as patched:
        patched.setattr(steps, "STEPS", [chosen[name] for name in IMAGES])
        patched.setattr(steps, "WEIGHTS", list(IMAGES.values()))
        return draw(seed, Limits((4, 9), (2, 3, 4, 6)))


SEEDS = [
    range(6),
    *(pytest.param(range(n, n + 60), marks=pytest.mark.full) for n in range(6, 600, 60)),
]


@pytest.mark.parametrize("seeds", SEEDS)
def test_images(seeds, monkeypatch):
    """Right, and with no more transposes than if no region had been turned."""
    others = tuple(r for r in passes.PASSES if getattr(r, "name", "") != "channels")
    for seed in seeds:
        program = drawn(f"images/{seed}", monkeypatch)
        found = judge(program)
        assert found.is_fine, f"images/{seed}: {found}"
        if found.kind == "refused":
            continue
        with monkeypatch.context() as patched:
            patched.setattr(passes, "PASSES", others)
            without = transposes(program)
        assert transposes(program) <= without, f"images/{seed}"


def transposes(program: Program) -> int:
    fn, params = function(program)
    specs = [(spec.shape, spec.dtype) for spec in program.inputs.values()]
    with jax.enable_x64(program.x64):
        export = converter.to_onnx(fn, specs, params=params, opset=program.opset)
    return export.report.histogram.get("Transpose", 0)
