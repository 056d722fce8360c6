"""Entry points times what may be there: one sentence, nothing lost, nothing left."""

import shlex

import pytest

from tests.killed import Order
from tests.siege.doors import DOORS, FUNCTIONS, PROGRAM, RUNTIME, functions, parameters
from tests.siege.rules import Said, left, lost, wrong_words
from tests.siege.steps import besieged
from tests.siege.things import NAMES, THINGS
from tests.siege.world import fresh, prepare, state


@pytest.fixture(scope="module")
def template(run, tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("prepared"), run)


def test_every_parameter_that_is_a_path_is_a_row():
    assert sorted(parameters()) == sorted(DOORS)


@pytest.mark.full
@pytest.mark.parametrize("door", DOORS)
def test_something_sound_ends_well(door, run, template, tmp_path):
    """What is refused elsewhere was then refused by the reader, and not before it."""
    here, output = fresh(template, tmp_path), tmp_path / "said"
    words = DOORS[door].words(DOORS[door].sound)
    if RUNTIME in words and not (here / RUNTIME).exists():
        pytest.skip("there is no onnxruntime-web here: npm fetches it")
    assert run(Order(str(here), words, output=str(output))).status == 0, Said.of(output)


def test_every_function_that_takes_a_path_is_a_row():
    assert set(functions()) <= set(FUNCTIONS)


@pytest.mark.full
@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_a_function_is_given(function, thing, run, template, tmp_path):
    program = PROGRAM.format(FUNCTIONS[function])
    assert not wrong(["-c", program, "thing"], "thing", THINGS[thing], run, template, tmp_path)


def asked(door, name):
    """The path that a command is given, and its line."""
    path = name if "/" in name or len(name) > 250 else name + door.suffix
    return door.words(path), path


def wrong(words, path, make, run, template, folder):
    """What is wrong with a command that is given a thing."""
    here, place = fresh(template, folder / "world"), folder / "world"
    if make is not None:
        make(here / path)
    before, output = state(place), folder / "said"
    outcome = run(Order(str(here), words, output=str(output), seconds=90))
    said, after = Said.of(output), state(place)
    found = [*wrong_words(outcome, said), *lost(before, after)]
    found += left(before, after) if outcome.status == 2 else ()
    found += [key for key in after if key.endswith("executed") or "/.zoo-" in key]
    return found and [*found, shlex.join(words[-5:]), *said.err.splitlines()[-2:]]


@pytest.mark.full
@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("door", DOORS)
def test_what_is_there(door, thing, run, template, tmp_path):
    assert not wrong(*asked(DOORS[door], "thing"), THINGS[thing], run, template, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("door", DOORS)
def test_what_it_is_called(door, name, run, template, tmp_path):
    assert not wrong(*asked(DOORS[door], NAMES[name]), None, run, template, tmp_path)


@pytest.mark.full
def test_a_few_worlds_hold(run, template, tmp_path, pytestconfig):
    for number in range(6):
        seed = f"{pytestconfig.getoption('--seed')}/{number}"
        siege = besieged(run, template, tmp_path / str(number), seed, 10)
        assert "WRONG" not in siege.history[-1], "\n".join(siege.history)
