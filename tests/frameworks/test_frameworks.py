"""Every public layer of the frameworks converts unchanged and gives JAX's numbers, and
`docs/frameworks.md` states its operators."""

import onnx_ir as ir
import pytest

from tests.frameworks.examples import FRAMEWORKS, Framework
from tests.frameworks.rows import (
    PAGE,
    Row,
    assert_right,
    example,
    operators,
    read_reasons,
    read_table,
    reasons,
    sections,
    table,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:SelfAttention will be deprecated:DeprecationWarning"
)
SECTIONS = sections()
FULL = pytest.mark.full


def missing(framework: Framework) -> pytest.MarkDecorator:
    """Return a mark that skips a test if the framework is not installed."""
    reason = f"{framework.package} is not installed: pip install -e '.[test,frameworks]'"
    return pytest.mark.skipif(not framework.installed, reason=reason)


def rows() -> list[pytest.param]:
    """Return the rows of all frameworks. A framework that is not installed has one row, which is
    skipped."""
    return [
        pytest.param(framework, row, id=f"{framework.title}-{row.name if row else 'all'}",
                     marks=(missing(framework), *([] if is_usual(framework, row) else [FULL])))
        for framework in FRAMEWORKS
        for row in (framework.rows() if framework.installed else [None])
    ]  # fmt: skip


def is_usual(framework: Framework, row: Row | None) -> bool:
    """Return whether a row is in the default tier."""
    return row is None or row.name in framework.usual


every_framework = pytest.mark.parametrize(
    "framework", [pytest.param(f, id=f.title, marks=missing(f)) for f in FRAMEWORKS]
)


@pytest.mark.parametrize(("framework", "row"), rows())
def test_a_layer_converts_to_the_operators_on_the_page(framework, row):
    export = assert_right(row)
    assert read_table(SECTIONS[framework.title])[row.name] == operators(export)


@pytest.mark.full
@every_framework
def test_every_layer_has_a_row_or_a_reason(framework):
    """The tables have a row or a reason for every public layer of a framework, and the page has the
    same rows and reasons."""
    rows, excluded = framework.rows(), framework.excluded()
    shown = {row.layer for row in rows}
    assert framework.usual <= {row.name for row in rows}
    assert not shown & excluded.keys()
    assert not framework.listed or framework.module.public() == shown | excluded.keys()
    section = SECTIONS[framework.title]
    layers = [(row.name, read_table(section)[row.name]) for row in rows]
    assert "\n".join([*table(layers), ""]) in section
    assert "\n".join(reasons(excluded)) in section and read_reasons(section) == excluded


@pytest.mark.full
@every_framework
def test_the_example_runs(framework):
    names = {}
    exec(compile(example(framework.title), PAGE.name, "exec"), names)
    assert isinstance(names["export"].model, ir.Model)
