"""Pages in Markdown, from the templates in `zoo/data`."""

import json
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined


def markdown(template: str, **values: object) -> str:
    """A page; a name that the template has and `values` have not is an error."""
    # It is no HTML, so nothing is escaped.
    environment = Environment(
        loader=FunctionLoader(_template),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["quoted"] = json.dumps
    return environment.get_template(template).render(values)


def _template(name: str) -> str:
    return (files("zoo") / "data" / name).read_text(encoding="utf-8")
