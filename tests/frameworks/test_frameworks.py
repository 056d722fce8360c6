"""Every public layer of the frameworks converts as it is, and the page about them is true."""

import re

import onnx_ir as ir
import pytest

from tests.frameworks.examples import FRAMEWORKS, Framework
from tests.frameworks.rows import PAGE, Row, assert_right, example, line, sections

pytestmark = pytest.mark.filterwarnings(
    "ignore:SelfAttention will be deprecated:DeprecationWarning"
)
SECTIONS = sections()
FULL = pytest.mark.full


def missing(framework: Framework) -> pytest.MarkDecorator:
    reason = f"{framework.package} is not installed: pip install -e '.[test,frameworks]'"
    return pytest.mark.skipif(not framework.installed, reason=reason)


def rows() -> list[pytest.param]:
    """Those of a framework that is not installed are one row, which is skipped."""
    return [
        pytest.param(framework, row, id=f"{framework.title}-{row.name if row else 'all'}",
                     marks=(missing(framework), *([] if is_usual(framework, row) else [FULL])))
        for framework in FRAMEWORKS
        for row in (framework.rows() if framework.installed else [None])
    ]  # fmt: skip


def is_usual(framework: Framework, row: Row | None) -> bool:
    return row is None or row.name in framework.usual


every = pytest.mark.parametrize(
    "framework", [pytest.param(f, id=f.title, marks=missing(f)) for f in FRAMEWORKS]
)


@pytest.mark.parametrize(("framework", "row"), rows())
def test_a_layer_converts_and_is_what_the_page_says(framework, row):
    export = assert_right(row)
    assert line(row, export) in SECTIONS[framework.title].splitlines()


@pytest.mark.full
@every
def test_every_layer_is_here(framework):
    """Or there is a reason why not."""
    rows, left = framework.rows(), framework.left()
    shown = {row.layer for row in rows}
    assert framework.usual <= {row.name for row in rows}
    assert not shown & left.keys()
    assert not framework.listed or framework.module.public() == shown | left.keys()
    section = SECTIONS[framework.title]
    assert re.findall(r"^\| (.*?) \| \d", section, re.M) == [row.name for row in rows]
    assert re.findall(r"^- `(.*?)`: (.*)$", section, re.M) == [*left.items()]


@pytest.mark.full
@every
def test_the_example_runs(framework):
    found = {}
    exec(compile(example(framework.title), PAGE.name, "exec"), found)
    assert isinstance(found["export"].model, ir.Model)
