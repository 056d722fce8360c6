"""What is chosen of tables and cross products has what it is chosen for, and little more."""

from itertools import combinations, product

import pytest

from tests.tiers import covering

SIDES = {"network": range(7), "precision": "abcde", "transformation": range(4)}
CASES = [dict(zip(SIDES, values, strict=True)) for values in product(*SIDES.values())]


@pytest.mark.parametrize(("strength", "most"), [(1, 7), (2, 45)])
def test_every_combination_occurs(strength, most):
    """Of 140 triples 35 at least have every pair of the two longer sides."""
    chosen = covering(CASES, strength)
    for names in combinations(SIDES, strength):
        there = {tuple(CASES[index][name] for name in names) for index in chosen}
        assert there == {*product(*(SIDES[name] for name in names))}
    assert len(chosen) <= most


def test_of_a_table_the_first_row_of_each_tag():
    assert covering([{"tag": tag} for tag in "aabacbc"], 1) == [0, 2, 4]
