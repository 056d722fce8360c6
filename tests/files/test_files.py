"""Files that somebody changed give tensors or one sentence, quickly and in little memory."""

import pytest

from tests.files.formats import FORMATS
from tests.files.hunt import FINE, hunt


def wrong(name, seed, count, folder):
    found = hunt(name, seed, count, folder)
    return [f"{name} {seed}/{index}: {outcome}" for index, outcome in found if outcome not in FINE]


@pytest.mark.parametrize("name", ["pth", "equimo"])
def test_a_few_of_the_formats_with_most_in_them(name, tmp_path):
    assert not wrong(name, 0, 60, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", FORMATS)
def test_two_thousand_files(name, tmp_path):
    assert not wrong(name, 1, 2000 // len(FORMATS), tmp_path)
