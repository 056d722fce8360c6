"""Files that somebody changed give tensors or one sentence, quickly and in little memory."""

import pytest

from tests.files.__main__ import hunt
from tests.files.formats import FORMATS


@pytest.mark.parametrize("name", ["pth", "equimo", "npz", "safetensors"])
def test_a_few_of_the_formats_with_most_in_them(name, tmp_path):
    assert not [*hunt(name, 0, 60, tmp_path)]


@pytest.mark.full
@pytest.mark.parametrize("name", FORMATS)
def test_two_thousand_files(name, tmp_path):
    assert not [*hunt(name, 1, 2000 // len(FORMATS), tmp_path)]
