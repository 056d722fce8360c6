"""How long a stranger's first steps take, with nothing installed but Python, npm and git.

    python benchmarks/first_hour.py [--python PYTHON]

A clone of what is committed is made in an empty folder, and README's first command builds its
environment. Then a function of the page of own models is converted, somebody's checkpoint is
exported (here that of `vit_digits`, under another name), an answer is asked for, and a folder and
its page are made. Each step runs in a shell that has nothing on its path but the system's programs
and this environment's.
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
    """Lines of a shell by what they do, in their order."""
    readme = (clone / "README.md").read_text()
    (first,) = re.findall(r"^python3 -m venv .*zoo.export$", readme, re.MULTILINE)
    own = (clone / "docs" / "how-to" / "own-model.md").read_text()
    program = re.search(r"```python\n(.*?)```", own, re.DOTALL)
    assert program is not None
    (clone / "own.py").write_text(program[1])
    picture = Image.new("RGB", (32, 32))
    ImageDraw.Draw(picture).text((16, 16), "3", "white", ImageFont.load_default(32), "mm")
    picture.save(clone / "three.png")
    checkpoint = "cp zoo/data/vit_digits.safetensors mine.safetensors"
    return {
        "the environment, and README's two exports": first.replace("python3", python, 1),
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
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "jax-onnx-zoo"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        bare = {"PATH": os.defpath, "HOME": folder}
        bare |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        began = time.perf_counter()
        for name, line in steps(clone, asked.python).items():
            start = time.perf_counter()
            done = subprocess.run(
                line, shell=True, cwd=clone, env=bare, text=True, capture_output=True
            )
            print(f"{time.perf_counter() - start:6.1f} s  {name}: {line}", flush=True)
            if done.returncode:
                sys.exit(done.stdout + done.stderr)
        print(f"{time.perf_counter() - began:6.1f} s  in all")


if __name__ == "__main__":
    main()
