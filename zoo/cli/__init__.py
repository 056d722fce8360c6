"""The command line, with one file for each command.

This package may import all other packages, and no other package imports it.
"""

from zoo.cli.app import main

__all__ = ["main"]
