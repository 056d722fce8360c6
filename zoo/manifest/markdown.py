"""Pages in Markdown, from the templates in `zoo/data`."""

import json
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined


def markdown(template: str, **values: object) -> str:
    """Return a page. **Raises** an error for a name of the template that `values` lack."""
    data = files("zoo") / "data"
    environment = Environment(
        loader=FunctionLoader(lambda name: (data / name).read_text(encoding="utf-8")),
        autoescape=False,  # Markdown is no HTML
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["quoted"] = json.dumps
    return environment.get_template(template).render(values)
