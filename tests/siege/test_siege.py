"""A slice of `python -m tests.siege`."""

import pytest

from tests.siege.steps import besieged
from tests.siege.world import prepare


@pytest.mark.full
def test_a_few_worlds_hold(run, tmp_path):
    template = prepare(tmp_path, run)
    for number in range(6):
        siege = besieged(run, template, tmp_path / str(number), f"full/{number}", 10)
        assert "WRONG" not in siege.history[-1], "\n".join(siege.history)
