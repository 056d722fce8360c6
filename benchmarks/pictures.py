"""Pictures of `zoo verify --plot`, `zoo bench --plot` and `zoo show` for the documentation.

python benchmarks/pictures.py docs/images

Charts are transparent with grey letters, so that they are read on a bright page and on a dark one.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib import rc_context

from benchmarks.performance import COLOURS
from zoo.cli.app import app
from zoo.cli.console import call
from zoo.images.photograph import photographs

TRANSPARENT = COLOURS | {"savefig.transparent": True, "savefig.dpi": 120}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    folder = parser.parse_args().folder
    drawn = {name: folder / f"{name}.png" for name in ("errors", "speed", "features")}
    for picture in drawn.values():
        picture.unlink(missing_ok=True)
    with TemporaryDirectory() as here, rc_context(TRANSPARENT):
        photograph = Path(here, "cat.png")
        photographs(1)[0].save(photograph)
        random = ["dinov3_vits16", "--weights", "random"]
        files = {}
        for precision in ("fp32", "int8"):
            files[precision] = Path(here, f"dinov3_vits16-{precision}.onnx")
            run("export", *random, "--precision", precision, "--out", files[precision])
        run("verify", files["fp32"], "--plot", drawn["errors"])
        run("bench", *files.values(), "--threads", "2", "--plot", drawn["speed"])
        run("show", *random, photograph, "--out", drawn["features"])


def run(*words: str | Path) -> None:
    """Run a command of `zoo`, which has to end well."""
    assert call(app, [*map(str, words)], "zoo") == 0, words


if __name__ == "__main__":
    main()
