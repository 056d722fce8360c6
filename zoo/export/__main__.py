"""`python -m zoo.export`: the same as `zoo export`."""

from zoo.cli.console import run
from zoo.cli.export import app

run(app)
