"""``python -m zoo``: the same as the ``zoo`` command."""

from zoo.cli.app import main

main()
