"""`python -m tests.onnxruntimes make FOLDER`, or `table`."""

import sys
from pathlib import Path

from tests.onnxruntimes import make_environments
from tests.onnxruntimes.table import write_table

command, *names = sys.argv[1:]
if command == "make":
    make_environments(Path(names[0]))
else:
    write_table()
