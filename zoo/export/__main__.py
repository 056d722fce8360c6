"""Run `zoo export` as `python -m zoo.export`."""

from zoo.cli.console import run_command_line
from zoo.cli.export_command import app

run_command_line(app)
