"""The converter handles every primitive of JAX by a rule, a decomposition or a wrapper, or gives a
reason for refusing it; and `docs/coverage.md` says so."""

import re
import subprocess
import sys

import jax
import pytest

from tests.coverage.page import PAGE, harness, refusals
from tests.coverage.primitives import opsets, primitives, ways

TEXT = PAGE.read_text()
written_here = pytest.mark.skipif(
    f"JAX {jax.__version__} " not in TEXT,
    reason=f"docs/coverage.md was written with another JAX than {jax.__version__}",
)


def test_every_primitive_is_accounted_for():
    """The test fails if a new release of JAX has a primitive that is not handled."""
    counts = primitives()
    assert sum(counts.values()) > 180
    assert not sorted(counts.keys() - ways().keys())


@written_here
def test_the_page_states_the_treatment_of_every_primitive():
    """The page has the treatment and the opsets of each primitive, and the reasons of refusals.

    Its dtypes and operators are measured: `tests/generated.py` has a digest of their inputs.
    """
    tables, _, rest = TEXT.partition("## Refused\n\n")
    rows = re.findall(r"^\| `(.+?)` \| (.*?) \| (.*?) \|", tables, re.MULTILINE)
    assert rows == [(name, ways()[name], opsets(name)) for name, *_ in rows]
    refused, _, cases = rest.partition("\n## JAX's own harness\n\n")
    names = {*re.findall(r"`(.+?)`", refused)} & ways().keys()
    assert (refused, cases) == (refusals(names), harness())
    public = {name for name, is_public in primitives().items() if is_public}
    assert public <= names | {name for name, *_ in rows}


@written_here
@pytest.mark.full
def test_the_page_is_current():
    """The page is written in its own process, so that it has only the primitives that JAX and
    Equinox import."""
    program = "from tests.coverage.page import page; print(page(), end='')"
    command = [sys.executable, "-W", "ignore", "-c", program]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert written == TEXT
