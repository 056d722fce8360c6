"""Pages in Markdown, from the templates in `zoo/data`."""

import json
from importlib.resources import files

from jinja2 import Environment, StrictUndefined


def markdown(template: str, **values: object) -> str:
    """A page; a name that the template has and `values` have not is an error."""
    # It is no HTML, so nothing is escaped.
    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters["quoted"] = json.dumps
    text = (files("zoo") / "data" / template).read_text(encoding="utf-8")
    return environment.from_string(text).render(values)
