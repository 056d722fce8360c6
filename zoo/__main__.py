"""Run the `zoo` command with `python -m zoo`."""

from zoo.cli.app import main

main()
