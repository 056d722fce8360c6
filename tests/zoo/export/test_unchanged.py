"""Exports have the bytes that they had before: of the networks with embedded weights, and of each
kind with few blocks, in every precision."""

import json

import pytest

from tests.exports import EXPORTS, QUICK, RECORD, digests, made_with

QUICK_NAMES = {export.name for export in QUICK}


@pytest.fixture(scope="module")
def recorded():
    record = json.loads(RECORD.read_text())
    if record["made_with"] != made_with():
        pytest.skip(f"recorded with {record['made_with']}, and this is {made_with()}")
    return record["exports"]


@pytest.mark.parametrize(
    "name",
    [n if n in QUICK_NAMES else pytest.param(n, marks=pytest.mark.full) for n in EXPORTS],
)
def test_bytes_are_those_of_the_record(name, recorded):
    assert digests(EXPORTS[name]) == recorded[name]
