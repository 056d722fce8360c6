"""Pictures of `zoo verify --plot`, `zoo bench --plot` and `zoo show` for the documentation.

python benchmarks/pictures.py docs/images

That of speed has the numbers of `docs/performance.json`. Charts are transparent with grey letters,
so that they are read on a bright page and on a dark one.
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.performance import COLOURS, FIRST, USUAL
from zoo.cli.app import app
from zoo.cli.console import call
from zoo.images.photograph import photographs
from zoo.show.chart import TimedRow, draw_times

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
        file = Path(here, "dinov3_vits16.onnx")
        run("export", *random, "--out", file)
        run("verify", file, "--plot", drawn["errors"])
        measured_speed(folder.parent / "performance.json").savefig(drawn["speed"])
        run("show", *random, photograph, "--out", drawn["features"])


def measured_speed(path: Path) -> Figure:
    """The chart of `zoo bench --plot` with numbers that an idle machine gave."""
    found = json.loads(path.read_text())["speed"][FIRST][USUAL[0]]
    files = found["files"].items()
    first = next(iter(found["files"].values()))["median_ms"]
    rows = [
        TimedRow(name, *[each["median_ms"]] * 3, each["median_ms"] / first) for name, each in files
    ]
    chart = draw_times(f"{FIRST}, {USUAL[0]}", rows, found["products_ms"])
    chart.axes[0].set_xlabel("milliseconds of a run, the median")
    return chart


def run(*words: str | Path) -> None:
    """Run a command of `zoo`, which has to end well."""
    assert call(app, [*map(str, words)], "zoo") == 0, words


if __name__ == "__main__":
    main()
