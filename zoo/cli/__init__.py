"""The command line: one file a command. It may use everything, and nothing else uses it."""

from zoo.cli.app import main

__all__ = ["main"]
