"""The forms of a model's file beside each other in onnxruntime-web, on one thread, in Node.

    python benchmarks/web.py [FILE ...] [--model dinov3_vits16] [--rounds 10]

Without files the model is exported as `floor.py` does it. All files run once in every round, and
the fastest run of each counts. It needs Node and npm, which fetches the version that the pages of
`zoo site` have.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from floor import exported

from zoo.site.browser_runtime import PACKAGE, VERSION

SCRIPT = Path(__file__).with_suffix(".mjs")
SIDE = 224


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--model", default="dinov3_vits16")
    parser.add_argument("--rounds", type=int, default=10)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as workshop:
        files = asked.files or exported(asked.model, Path(workshop))
        install = ["npm", "install", "--ignore-scripts", "--silent", f"{PACKAGE}@{VERSION}"]
        subprocess.run([*install, "--prefix", workshop], check=True)
        command = [
            "node",
            SCRIPT,
            workshop,
            str(asked.rounds),
            str(SIDE),
            *map(Path.resolve, files),
        ]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    times = json.loads(told)
    first = next(iter(times.values()))
    for file, fastest in times.items():
        print(f"{fastest / first:.3f}  {fastest:8.1f} ms  {'/'.join(Path(file).parts[-2:])}")


if __name__ == "__main__":
    main()
