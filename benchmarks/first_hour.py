"""Measure how long a new user's first steps take, with only Python, npm and git installed.

python benchmarks/first_hour.py [--python PYTHON]

The program clones the committed tree into an empty folder and runs README's first command, which
builds the environment. Then it converts the function of the page about own models, exports a user's
checkpoint (a copy of `vit_digits`), asks for an answer, and builds a folder and its web page. Each
step runs in a shell whose path contains only the system's programs and those of this environment.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

ROOT = Path(__file__).parents[1]


def steps(clone: Path, python: str) -> dict[str, str]:
    """Return the shell command of each step by its description, in order."""
    readme = (clone / "README.md").read_text()
    (first_command,) = re.findall(r"^python3 -m venv .*zoo.export$", readme, re.MULTILINE)
    own_model_page = (clone / "docs" / "how-to" / "own-model.md").read_text()
    program = re.search(r"```python\n(.*?)```", own_model_page, re.DOTALL)
    assert program is not None
    (clone / "own.py").write_text(program[1])
    picture = Image.new("RGB", (32, 32))
    ImageDraw.Draw(picture).text((16, 16), "3", "white", ImageFont.load_default(32), "mm")
    picture.save(clone / "three.png")
    checkpoint = "cp zoo/data/vit_digits.safetensors mine.safetensors"
    return {
        "the environment, and README's two exports": first_command.replace("python3", python, 1),
        "a function of one's own": ".venv/bin/python own.py",
        "a checkpoint of one's own": f"{checkpoint} && .venv/bin/zoo export vit_digits "
        "--weights mine.safetensors --out mine.onnx",
        "what is in a picture": ".venv/bin/zoo run mine.onnx three.png",
        "a folder to publish": ".venv/bin/zoo build vit_digits --weights mine.safetensors",
        "its page": ".venv/bin/zoo site artifacts/vit_digits --out page",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "jax-onnx-zoo"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        environment = {"PATH": os.defpath, "HOME": folder}
        environment |= {
            name: value for name, value in os.environ.items() if name.startswith("PIP_")
        }
        began = time.perf_counter()
        for name, line in steps(clone, options.python).items():
            start = time.perf_counter()
            process = subprocess.run(
                line, shell=True, cwd=clone, env=environment, text=True, capture_output=True
            )
            print(f"{time.perf_counter() - start:6.1f} s  {name}: {line}", flush=True)
            if process.returncode:
                sys.exit(process.stdout + process.stderr)
        print(f"{time.perf_counter() - began:6.1f} s  in all")


if __name__ == "__main__":
    main()
