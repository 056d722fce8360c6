"""The cases that are chosen from a table or a cross product cover all required combinations of
values, with few cases."""

from itertools import combinations, product

import pytest

from tests.tiers import covering

SIDES = {"network": range(7), "precision": "abcde", "transformation": range(4)}
CASES = [dict(zip(SIDES, values, strict=True)) for values in product(*SIDES.values())]


@pytest.mark.parametrize(("strength", "most"), [(1, 7), (2, 45)])
def test_every_combination_occurs(strength, most):
    """With strength 2, at least 35 of the 140 triples are needed: there are as many pairs of the
    two longer sides."""
    chosen = covering(CASES, strength)
    for names in combinations(SIDES, strength):
        covered = {tuple(CASES[index][name] for name in names) for index in chosen}
        assert covered == {*product(*(SIDES[name] for name in names))}
    assert len(chosen) <= most


def test_the_first_row_of_each_tag_is_chosen():
    assert covering([{"tag": tag} for tag in "aabacbc"], 1) == [0, 2, 4]
