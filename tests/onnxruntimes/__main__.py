"""`python -m tests.onnxruntimes make FOLDER`, or `table`."""

import sys
from pathlib import Path

from tests.onnxruntimes import make
from tests.onnxruntimes.table import write

command, *names = sys.argv[1:]
if command == "make":
    make(Path(names[0]))
else:
    write()
