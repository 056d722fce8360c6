"""Random programs are converted right, or refused."""

import select
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

import converter
from converter import Difference
from tests.fuzz import draw as drawing
from tests.fuzz.draw import draw
from tests.fuzz.hunt import Worker, hunt
from tests.fuzz.judge import Outcome, is_open, judge
from tests.fuzz.pool import Limits
from tests.fuzz.program import Program, Spec, Step, printed, source
from tests.fuzz.shrink import shrink
from tests.fuzz.steps import STEPS


def assert_fine(indices: range, seed: int, steps: int) -> Counter[str]:
    arguments = [f"--seed={seed}", f"--steps={steps}"]
    found = list(hunt(indices, arguments))
    assert [f.index for f in found] == list(indices)
    failed = [
        f"python -m tests.fuzz --seed {seed} --steps {steps} --show {f.index}: {f.outcome}"
        for f in found
        if not f.outcome.is_fine
    ]
    assert not failed, "\n".join(failed)
    return Counter(f.outcome.kind for f in found)


@pytest.mark.parametrize(
    "indices", [range(60), pytest.param(range(60, 300), marks=pytest.mark.full)]
)
def test_programs(indices):
    counts = assert_fine(indices, seed=11, steps=4)
    assert counts["right"] > 5 / 6 * len(indices)


TALKER = """
print('true\\nfalse\\n{"kind": "right"}', flush=True)
input()
"""


def test_a_worker_is_heard_to_the_end():
    """It says several things before anybody asks."""
    worker = Worker([], [sys.executable, "-c", TALKER])
    told = []
    while len(told) < 3 and select.select([worker], [], [], 10)[0]:
        told.append(worker.take())
    worker.end()
    assert told == [None, None, Outcome("right")]


@pytest.mark.hunt
@pytest.mark.parametrize("seed", range(6))
def test_more_programs(seed):
    counts = assert_fine(range(500), seed, steps=12)
    assert counts["right"] > 350


def test_a_seed_is_a_program():
    assert draw("0/7") == draw("0/7") != draw("0/8")


@pytest.mark.full
def test_every_kind_of_step_is_drawn():
    drawing.TAKEN.clear()
    for i in range(1000):
        draw(f"steps/{i}", Limits((4, 8)))
    assert not [maker.__name__ for maker in STEPS if not drawing.TAKEN[maker.__name__]]


def one_step(text: str, shape: tuple[int | str, ...] = (3,)) -> Program:
    return Program({"x0": Spec(shape, "float32")}, {}, (Step(("v1",), text),), ("v1",))


PROGRAM = Program(
    inputs={"x0": Spec((3, 4), "float32"), "x1": Spec((4,), "int32")},
    weights={"w2": Spec((4,), "float32")},
    steps=(
        Step(("v3",), "jnp.sin(x0) * w2"),
        Step(("v4", "v5"), "jnp.split(v3, [1], axis=0)"),
        Step(("v6",), "v5.at[:].apply(jnp.exp)"),
        Step(("v7",), "x1 + 1"),
    ),
    outputs=("v6", "v7"),
)


def test_a_program_prints_as_a_script():
    specs = "[((3, 4), 'float32'), ((4,), 'int32')]"
    assert f"to_onnx(fn, {specs}, opset=23, params=params)" in printed(PROGRAM)


def test_shrinking_keeps_what_fails():
    """Here what fails is that `apply` is in the program."""

    def judged(program: Program) -> Outcome:
        return Outcome("wrong" if ".apply" in source(program) else "right")

    small = shrink(PROGRAM, judged(PROGRAM), judged)
    assert [step.text for step in small.steps] == ["x50.at[:].apply(jnp.exp)"]
    assert list(small.inputs.values()) == [Spec((1, 1), "float32")]
    assert not small.weights


@pytest.mark.full
def test_subnormal_numbers_are_told_from_wrong_ones(monkeypatch):
    small = one_step("jnp.exp(x0 * 0 - 88) * 1e10")
    assert judge(small).kind == "subnormal"
    monkeypatch.setattr("tests.fuzz.judge.right_if_flushed", lambda program: False)
    assert judge(small).kind == "wrong"


EXCUSED = {
    "reciprocal": one_step("(x0 * 0 + 1e38) / jnp.sum(x0[:1] * 0 + 1e38)"),
    "sign of NaN": one_step("lax.bitcast_convert_type((x0 * 0) / (x0 * 0), 'int32')"),
}


@pytest.mark.full
@pytest.mark.parametrize("kind", EXCUSED)
def test_excuses(kind):
    assert judge(EXCUSED[kind]).kind == kind


@pytest.mark.full
def test_what_is_wrong_besides_is_not_excused(monkeypatch):
    """A file of something else, which holds as large numbers."""
    convert = converter.to_onnx

    def other(fn: Any, specs: Any, **how: Any) -> converter.Export:
        made = convert(lambda x: (fn(x)[0] * 3,), specs, **how)
        return replace(made, retrace=convert(fn, specs, **how).retrace)

    monkeypatch.setattr("tests.fuzz.judge.converter.to_onnx", other)
    assert judge(EXCUSED["reciprocal"]).kind == "wrong"


def test_windows_of_equals_are_open_and_sines_are_not():
    pads = "((0, 1), (0, 0), (0, 0))"
    windows = f"lax.reduce_window(y, jnp.asarray(-jnp.inf), lax.max, (2, 2, 1), (1, 1, 1), {pads})"
    inputs = dict.fromkeys(("x0", "x1"), Spec((2, 2, 6), "float32"))
    step = Step(("v2",), f"jax.jvp(lambda y: {windows}, (x0,), (x1,))[1]")
    slope = Program(inputs, {}, (step,), ("v2",))
    element = Difference("repeated", True, "output_0", (0, 0, 5), "0", "0")
    assert is_open(slope, element)
    assert not is_open(one_step("jnp.sin(x0)", (2, 2, 6)), element)


def test_the_judge_knows_right_from_wrong(monkeypatch):
    right = one_step("jnp.sin(x0)", ("B", 3))
    assert judge(right).kind == "right"
    monkeypatch.setattr("converter.lower.lowerings.OWN_RULES", {})
    assert judge(right).kind == "refused"
    monkeypatch.undo()
    monkeypatch.setattr("converter.api.conversion.tidy", lambda model, target: 1 / 0)
    outcome = judge(right)
    assert (outcome.kind, outcome.cause) == ("exception", "ZeroDivisionError conversion.py:finish")
