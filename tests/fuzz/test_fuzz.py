"""Random programs are converted correctly or refused, the judge distinguishes correct files from
wrong ones, and failing programs are shrunk."""

import re
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import converter
from tests.forms.draw import Limits, draw
from tests.forms.program import Program, Spec, Step, function, printed, walk
from tests.forms.steps import FORMS
from tests.fuzz.__main__ import judge_part, main
from tests.fuzz.judge import Outcome, judge
from tests.fuzz.part import SIZE, Part, shrink
from tests.tiers import default_rows


@pytest.mark.parametrize(
    ("programs", "seed", "steps", "least_right"),
    [
        (7, 11, 4, 5),
        pytest.param(15, 11, 4, 12, marks=pytest.mark.full),
        pytest.param(200, 11, 4, 165, marks=pytest.mark.full),
        *(pytest.param(500, seed, 12, 350, marks=pytest.mark.full) for seed in range(6)),
    ],
)
def test_programs(programs, seed, steps, least_right, capfd):
    """The first programs of a seed are small ones."""
    command = f"--first 20 --programs {programs} --seed {seed} --steps {steps}"
    code = main(command.split())
    output = capfd.readouterr().out
    assert code == 0, f"python -m tests.fuzz {command}: {output}"
    assert f"{programs} programs in " in output
    assert int(re.search(r"'right': (\d+)", output)[1]) > least_right


FATAL = """
import os
from tests.fuzz import part
from tests.fuzz.judge import Outcome

def judge(program, tell):
    if len(program) == {crash}:
        os.abort()
    if len(program) == {invalid}:
        tell(True)
        os.abort()
    return Outcome("right")

part.judge = judge
part.main()
"""
"""Code whose judge aborts for programs of two numbers of steps, the second while JAX runs them."""


@pytest.mark.full
def test_programs_that_end_the_process_are_outcomes(tmp_path, capsys):
    part = Part(tmp_path, "0", 12, range(8))
    programs = part.programs()
    crash, invalid, *_ = sorted({len(program) for program in programs.values()})
    kinds = {crash: "crash", invalid: "invalid"}
    expected = {index: kinds.get(len(program), "right") for index, program in programs.items()}
    outcomes = judge_part(part, FATAL.format(crash=crash, invalid=invalid))
    assert dict(zip(programs, (outcome.kind for outcome in outcomes), strict=True)) == expected
    assert {*expected.values()} == {"crash", "invalid", "right"}
    messages = capsys.readouterr().out
    for index, program in programs.items():
        is_printed = f"== {index}: crash" in messages and printed(program) in messages
        assert is_printed == (expected[index] == "crash")


@pytest.mark.full
def test_every_form_is_drawn():
    programs = (draw(Random(f"steps/{i}"), Limits((4, 8))) for i in range(1500))
    assert FORMS.keys() <= {step.form for program in programs for step in walk(program.steps)}


def one_step(text: str, shape: tuple[int | str, ...] = (3,)) -> Program:
    """Return a program with one step, which reads `x0`."""
    return Program({"x0": Spec(shape, "float32")}, {}, (Step(("v1",), text),), ("v1",))


JUDGED = {
    "right if subnormal": one_step("lax.map(lambda y: jnp.exp(y * 0 - 88) * 1e10 + 1e-30, x0)"),
    "right if reciprocal": one_step("(x0 * 0 + 1e38) / jnp.sum(x0[:1] * 0 + 1e38) + 1"),
    "right if NaN": one_step("lax.bitcast_convert_type((x0 * 0) / (x0 * 0), 'int32')"),
    "scaled": one_step("jnp.inner((x0 * 0 + 3e19) / 36, (x0 * 0 + 3e19) / 36)"),
    "right if order": one_step(
        "jnp.prod(jnp.tile(jnp.concatenate([x0[:1] * 0, x0 * 0 + 3e38]), 8))"
    ),
    "right if float16": one_step("jax.nn.softmax((x0 * 0 + 300).astype('float16') ** 2)"),
    "open": one_step("jax.nn.standardize(x0 * 1e15 + 2e19)"),
}
"""Programs whose files differ from JAX, by the kind of their outcome and the reason."""


@pytest.mark.parametrize("name", default_rows(JUDGED, "right if reciprocal", "open"))
def test_programs_with_several_results_are_accepted(name):
    assert judge(JUDGED[name]).kind == name.partition(" if ")[0]


def test_another_function_is_not_accepted(monkeypatch):
    """JAX has two results of the program, and the file has neither. Its elements are open, with
    which a file does not pass."""
    convert = converter.to_onnx

    def other(fn: Any, specs: Any, **options: Any) -> converter.Export:
        export = convert(lambda x: (fn(x)[0] * 3,), specs, **options)
        return replace(export, retrace=convert(fn, specs, **options).retrace)

    monkeypatch.setattr("tests.fuzz.judge.converter.to_onnx", other)
    assert judge(JUDGED["right if reciprocal"]).kind == "open"


REACHED = {
    "Boolean": "lax.switch((x0[0] > 0).astype(int), [jnp.sin, jnp.cos], x0)",
    "count": "lax.switch(jnp.sum(x0 > 4), [jnp.sin, jnp.cos, jnp.tanh, jnp.exp], x0)",
    "floor": "lax.switch(jnp.floor(x0[1] / 2).astype(int), [jnp.sin, jnp.cos, jnp.tanh], x0)",
    "predicate": "lax.cond(jnp.sum(x0) > 60, jnp.sin, jnp.cos, x0)",
    "equals": "lax.cond(jnp.all(x0 == 5), jnp.sin, jnp.cos, x0)",
    "vmap": "jax.vmap(lambda t: lax.switch(t.astype(int), [jnp.sin, jnp.cos, jnp.exp], t))(x0)",
    "gradient": "jax.grad(lambda t: lax.cond(t[0] < -9, jnp.sum, jnp.prod, t))(x0)",
    "scan": "lax.scan(lambda c, t: (c, lax.switch(t.astype(int) - 3, [jnp.sin, jnp.exp], c)), "
    "x0[0], x0)[1]",
    "turns": "lax.while_loop(lambda s: jnp.sum(s) < 8, lambda s: s + 3, x0)",
    "number of turns": "lax.fori_loop(0, jnp.int32(x0[0]), lambda i, s: s * 2, x0)",
}
"""Steps with branches or loops, all of whose ways verification has to reach."""


@pytest.mark.parametrize("name", default_rows(REACHED, "Boolean", "predicate", "vmap", "turns"))
def test_each_branch_runs(name):
    """Verification runs all branches and numbers of loop turns, as callbacks in the program's
    source record."""
    outcome = judge(one_step(REACHED[name]))
    assert outcome.kind == "right" and outcome.taken == outcome.branches > 1


def test_a_wrong_rare_branch_is_found(monkeypatch):
    """A file with another second branch is wrong, although no sample near zero takes this
    branch."""
    text = "lax.cond(jnp.sum(x0) > {}, lambda t: t * 3, jnp.sin, x0)"
    right, wrong = (one_step(text.format(bound)) for bound in (9, 4000))
    convert = converter.to_onnx

    def other(fn: Any, specs: Any, **options: Any) -> converter.Export:
        export = convert(function(wrong)[0], specs, **options)
        return replace(export, retrace=convert(fn, specs, **options).retrace)

    assert judge(right) == Outcome("right", branches=2, taken=2)
    monkeypatch.setattr("tests.fuzz.judge.converter.to_onnx", other)
    assert judge(right).kind == "wrong"


def test_outcomes_of_right_refused_and_failing_programs(monkeypatch):
    right = one_step("jnp.sin(x0)", ("B", 3))
    assert judge(right).kind == "right"
    monkeypatch.setattr("converter.lower.lowerings.BUILTIN_RULES", {})
    assert judge(right).kind == "refused"
    monkeypatch.undo()
    monkeypatch.setattr("converter.api.conversion.clean_up_model", lambda model, target: 1 / 0)
    outcome = judge(right)
    assert outcome.kind == "exception"
    assert outcome.cause == "ZeroDivisionError conversion.py:build_export"


@pytest.mark.parametrize(
    ("form", "steps"),
    [
        ("slice", 6),
        *(pytest.param(form, 12, marks=pytest.mark.full) for form in ("transpose", "layer_norm")),
    ],
)
def test_a_wrong_program_is_shrunk(form, steps, tmp_path):
    def judged(program: Program) -> Outcome:
        return Outcome("wrong" if form in {step.form for step in walk(program.steps)} else "right")

    part = Part(tmp_path, "0", steps, range(SIZE))
    long = next(p for p in part.programs().values() if len(p) > 3 and not judged(p).is_fine)
    small = shrink(part, long, judged(long), judged)
    assert not judged(small).is_fine and len(small) <= 2
