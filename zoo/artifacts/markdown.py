"""Pages in Markdown and in HTML, from the templates in `zoo/data`."""

import json
from collections.abc import Mapping
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined


def markdown(template: str, **values: object) -> str:
    """A page; a name that the template has and `values` have not is an error."""
    # It is no HTML, so nothing is escaped.
    return _render(template, escaped=False, values=values)


def html_page(template: str, **values: object) -> str:
    """The same of a page in HTML: whatever `values` have is text."""
    return _render(template, escaped=True, values=values)


def _render(template: str, escaped: bool, values: Mapping[str, object]) -> str:
    data = files("zoo") / "data"
    environment = Environment(
        loader=FunctionLoader(lambda name: (data / name).read_text(encoding="utf-8")),
        autoescape=escaped,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["quoted"] = json.dumps
    return environment.get_template(template).render(values)
