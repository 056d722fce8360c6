"""Pictures of `zoo verify --plot`, `zoo bench --plot` and `zoo show` for the documentation, and
README's of a recognised attention, and a page of `zoo site` that answers.

python benchmarks/pictures.py docs/images

That of speed has the numbers of `benchmarks/results/performance.json`. Charts are transparent with
grey letters, so that they are read on a bright page and on a dark one.
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.performance import COLOURS, FIRST, USUAL
from benchmarks.stages import draw_stages
from tests.browser import chromium_of_debian, served
from zoo.cli.app import app
from zoo.cli.console import call
from zoo.images.photograph import photographs
from zoo.show.chart import TimedRow, draw_times

SEVEN = ((20, 12), (80, 12), (45, 90))
"""The pen's places, in percent of the board."""

RESULTS = Path(__file__).with_name("results")
TRANSPARENT = COLOURS | {"savefig.transparent": True, "savefig.dpi": 120}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    folder = parser.parse_args().folder
    drawn = {name: folder / f"{name}.png" for name in ("errors", "features", "recognised", "speed")}
    for picture in drawn.values():
        picture.unlink(missing_ok=True)
    with TemporaryDirectory() as here, rc_context(TRANSPARENT):
        photograph = Path(here, "cat.png")
        photographs(1)[0].save(photograph)
        random = ["dinov3_vits16", "--weights", "random"]
        file = Path(here, "dinov3_vits16.onnx")
        run("export", *random, "--out", file)
        run("verify", file, "--plot", drawn["errors"])
        answer_in_browser(Path(here), folder / "browser.png")
        draw_stages().savefig(drawn["recognised"])
        measured_speed(RESULTS / "performance.json").savefig(drawn["speed"])
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


def answer_in_browser(here: Path, picture: Path) -> None:
    """Draw a digit on the page of `vit_digits`, and keep what the page then looks like."""
    run("build", "vit_digits", "--out", here / "artifacts")
    run("site", here / "artifacts" / "vit_digits", "--out", here / "site")
    with served(here / "site") as address, chromium_of_debian() as browser:
        page = browser.new_page(viewport={"width": 900, "height": 600})
        page.goto(f"{address}vit_digits.html")
        x, y, width, height = page.locator("#draw").bounding_box().values()
        for place, (across, down) in enumerate(SEVEN):
            page.mouse.move(x + width * across / 100, y + height * down / 100, steps=10)
            if place == 0:
                page.mouse.down()
        page.mouse.up()
        page.locator("#status", has_text="It says").wait_for(timeout=60_000)
        # The board and the answer, not what lies below them.
        x, y, width, _ = page.locator("#demo").bounding_box().values()
        part = {"x": x - 10, "y": y - 10, "width": width + 20, "height": height + 20}
        page.screenshot(path=picture, clip=part, full_page=True)


def run(*words: str | Path) -> None:
    """Run a command of `zoo`, which has to end well."""
    assert call(app, [*map(str, words)], "zoo") == 0, words


if __name__ == "__main__":
    main()
