"""The command line, with one file for each command. It may import every other package; none imports
it."""

from zoo.cli.app import main

__all__ = ["main"]
