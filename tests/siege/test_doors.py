"""Every command and function with a path, with everything that may be at the path.

The rules are in `rules.py`: one sentence, and no lost or left files.
"""

import shlex

import pytest

from tests.killed import Order
from tests.siege.doors import (
    DOORS,
    FUNCTIONS,
    PROGRAM,
    RUNTIME,
    functions_with_paths,
    parameters_with_paths,
)
from tests.siege.rules import Printed, find_left_files, find_lost_files, find_wrong_endings
from tests.siege.steps import run_random_commands
from tests.siege.things import NAMES, THINGS
from tests.siege.world import create_world, prepare, read_state


@pytest.fixture(scope="module")
def template(run, tmp_path_factory):
    """The folder that every test copies."""
    return prepare(tmp_path_factory.mktemp("prepared"), run)


def test_every_parameter_with_a_path_is_a_row():
    assert sorted(parameters_with_paths()) == sorted(DOORS)


@pytest.mark.full
@pytest.mark.parametrize("door", DOORS)
def test_commands_succeed_with_valid_paths(door, run, template, tmp_path):
    """Otherwise the other tests might show refusals that precede the reading of the path."""
    working_folder, output = create_world(template, tmp_path), tmp_path / "said"
    arguments = DOORS[door].words(DOORS[door].sound)
    if RUNTIME in arguments and not (working_folder / RUNTIME).exists():
        pytest.skip("onnxruntime-web is missing: npm could not download it")
    assert run(Order(str(working_folder), arguments, output=str(output))).status == 0, Printed.of(
        output
    )


def test_every_function_with_a_path_is_a_row():
    assert set(functions_with_paths()) <= set(FUNCTIONS)


@pytest.mark.full
@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_with_wrong_paths(function, thing, run, template, tmp_path):
    program = PROGRAM.format(FUNCTIONS[function])
    assert not find_faults(
        ["-c", program, "thing"], "thing", THINGS[thing], run, template, tmp_path
    )


def arguments_and_path(door, name):
    """Return the arguments of a command for a name, and the path with its suffix."""
    path = name if "/" in name or len(name) > 250 else name + door.suffix
    return door.words(path), path


def find_faults(arguments, path, make_thing, run, template, folder):
    """Run a command in a new world with a thing at a path. Return the broken rules."""
    working_folder, world = create_world(template, folder / "world"), folder / "world"
    if make_thing is not None:
        make_thing(working_folder / path)
    before, output = read_state(world), folder / "said"
    outcome = run(Order(str(working_folder), arguments, output=str(output), seconds=90))
    printed, after = Printed.of(output), read_state(world)
    faults = [*find_wrong_endings(outcome, printed), *find_lost_files(before, after)]
    faults += find_left_files(before, after) if outcome.status == 2 else ()
    faults += [key for key in after if key.endswith("executed") or "/.zoo-" in key]
    return faults and [*faults, shlex.join(arguments[-5:]), *printed.err.splitlines()[-2:]]


@pytest.mark.full
@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("door", DOORS)
def test_commands_with_wrong_things_at_a_path(door, thing, run, template, tmp_path):
    assert not find_faults(
        *arguments_and_path(DOORS[door], "thing"), THINGS[thing], run, template, tmp_path
    )


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("door", DOORS)
def test_commands_with_unusual_names_of_paths(door, name, run, template, tmp_path):
    assert not find_faults(
        *arguments_and_path(DOORS[door], NAMES[name]), None, run, template, tmp_path
    )


@pytest.mark.full
def test_random_commands_in_a_changing_folder(run, template, tmp_path, pytestconfig):
    for number in range(6):
        seed = f"{pytestconfig.getoption('--seed')}/{number}"
        siege = run_random_commands(run, template, tmp_path / str(number), seed, 10)
        assert "WRONG" not in siege.history[-1], "\n".join(siege.history)
