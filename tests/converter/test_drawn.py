"""Programs of the fuzzer that are of images, in whatever order their axes are."""

import jax
import pytest

import converter
from converter.pipeline import passes
from tests.fuzz import steps
from tests.fuzz.draw import draw
from tests.fuzz.judge import judge
from tests.fuzz.pool import Limits
from tests.fuzz.program import Program, function
from tests.fuzz.steps import contract, elementwise, macros, reduce, shape, window

IMAGES = (
    *(window.convolution,) * 4,
    *(window.convolution_transpose, window.reduce_window, window.average_pool, window.resize),
    *(elementwise.unary_float, elementwise.binary, macros.batch_norm, macros.softmax),
    *(shape.transpose, shape.concatenate, shape.split, shape.pad, shape.flip, shape.reshape),
    *(contract.linear, reduce.reduce, reduce.cumulative),
)


def drawn(seed: str, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr(steps, "STEPS", IMAGES)
    monkeypatch.setattr(steps, "WEIGHTS", [1] * len(IMAGES))
    return draw(seed, Limits((4, 9), (2, 3, 4, 6)))


SEEDS = [
    range(12),
    pytest.param(range(12, 72), marks=pytest.mark.full),
    pytest.param(range(72, 600), marks=pytest.mark.hunt),
]


@pytest.mark.parametrize("seeds", SEEDS)
def test_images(seeds, monkeypatch):
    """Right, and with no more transposes than if no region had been turned."""
    every = passes.PASSES
    others = tuple(step for step in every if step.name != "channels")
    for seed in seeds:
        program = drawn(f"images/{seed}", monkeypatch)
        found = judge(program)
        assert found.is_fine, f"images/{seed}: {found}"
        if found.kind == "refused":
            continue
        monkeypatch.setattr(passes, "PASSES", others)
        without = transposes(program)
        monkeypatch.setattr(passes, "PASSES", every)
        assert transposes(program) <= without, f"images/{seed}"


def transposes(program: Program) -> int:
    fn, params = function(program)
    specs = [(spec.shape, spec.dtype) for spec in program.inputs.values()]
    with jax.enable_x64(program.x64):
        export = converter.to_onnx(fn, specs, params=params, opset=program.opset)
    return export.report.histogram.get("Transpose", 0)
