"""Built folders, npm's package, a site of them that is served, and a browser."""

import base64
import os
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.browser import served
from zoo.apps.embed.embed_call import embed
from zoo.apps.site.browser_runtime import ONNXRUNTIME_WEB, TRANSFORMERS_JS, write_package
from zoo.apps.site.write import write_site
from zoo.cli.app import app
from zoo.cli.console import run_command
from zoo.common.errors import ZooError
from zoo.common.progress import LogProgress
from zoo.data.digits.data import load_digits
from zoo.images.pixel_values import pixel_values

PICTURES = "vit_tiny_patch16_224"
"""A backbone and a classifier that is quickly built."""

WORDS = "siglip_digits_dual"
"""Both towers."""

BOXES = "boxes_digits"
"""Its int8 is too far from JAX to be built."""


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Built folders of the trained models of digits, and of a random classifier of photographs."""
    place = tmp_path_factory.getbasetemp()
    # The workers of a run share them: who comes second finds them built.
    place = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "built"
    wanted = ("--variant", "fp32,int8", "--out", str(place), "--offline")
    assert run_command(app, ["build", "vit_digits", *wanted]) == 0
    assert run_command(app, ["build", "depth_digits", *wanted]) == 0
    assert run_command(app, ["build", WORDS, *wanted]) == 0
    assert run_command(app, ["build", BOXES, "--variant", "fp32", *wanted[2:]]) == 0
    assert run_command(app, ["build", PICTURES, "--weights", "random", *wanted]) == 0
    names = ("vit_digits", PICTURES, "depth_digits", WORDS, BOXES)
    return [place / name for name in names]


@pytest.fixture(scope="session")
def runtime(tmp_path_factory):
    """onnxruntime-web and transformers.js, unpacked."""
    place = tmp_path_factory.mktemp("package")
    try:
        for package in (ONNXRUNTIME_WEB, TRANSFORMERS_JS):
            write_package(package, None, place / "dist", place, LogProgress())
    except ZooError as error:
        pytest.skip(f"npm gives no {package.name} here: {error}")
    return place


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """A folder of sixty pictures of digits, which are called by their numbers."""
    place = tmp_path_factory.mktemp("pictures") / "digits"
    place.mkdir()
    for row, image in enumerate(load_digits().images[:60]):
        Image.fromarray(image).save(place / f"{row:02}.png")
    return place


@pytest.fixture(scope="session")
def made(runtime, folders, digits, tmp_path_factory):
    """The site, and what was said of it. A dataset of digits by one of the models is searched."""
    place = tmp_path_factory.mktemp("www")
    searched = embed(
        [digits], model=folders[3], out=digits.parent / "d.lance", extra=("thumbnail",)
    )
    return write_site(
        folders, place / "site", runtime, False, LogProgress(), runtime, searched.dataset
    )


@pytest.fixture(scope="session")
def address(made):
    """Where the site is served."""
    with served(made.folder) as found:
        yield found


@dataclass
class Visit:
    """A page, and everything that must not have happened when the visit ends."""

    page: object
    address: str
    shots: Path
    scheme: str

    def open(self, name="index.html"):
        self.page.goto(self.address + name)
        return self.page

    def shoot(self, name, place=None):
        """Keep a picture of the page, or of a part of it."""
        width = f"{self.page.viewport_size['width']}-{self.scheme}"
        whole = {} if place else {"full_page": True}
        target = self.page.locator(place) if place else self.page
        target.screenshot(path=self.shots / f"{name}-{width}.png", **whole)


@pytest.fixture(scope="session")
def shots(tmp_path_factory):
    """Where pictures of pages are kept: `ZOO_SCREENSHOTS`, or a folder of pytest's."""
    place = Path(os.environ.get("ZOO_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    place.mkdir(parents=True, exist_ok=True)
    return place


STORED = """async () => [
    ...Object.keys(localStorage), ...Object.keys(sessionStorage), ...await caches.keys(),
    ...(await indexedDB.databases()).map(({ name }) => name),
]"""


def good(response):
    """Also that nothing has changed since a browser asked some seconds ago."""
    return response.ok or response.status == 304


@pytest.fixture
def visit(request, chromium, address, shots):
    """A visit 1280 pixels wide in light colours, unless a test has it otherwise.

    In the end: no error on the console, no answer but good ones, no request that left the site,
    nothing stored.
    """
    width, scheme = getattr(request, "param", (1280, "light"))
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=width < 600
    )
    asked, wrong = [], []
    context.on("request", lambda found: asked.append(found.url))
    context.on("response", lambda found: good(found) or wrong.append(f"{found.status} {found.url}"))
    context.on("console", lambda said: wrong.append(f"{said.type}: {said.text}"))
    context.on("weberror", lambda found: wrong.append(str(found.error)))
    page = context.new_page()
    yield Visit(page, address, shots, scheme)
    stored = page.evaluate(STORED) + context.cookies()
    context.close()
    assert wrong == [] and stored == []
    assert asked and [url for url in asked if not url.startswith((address, "blob:"))] == []


def said(page, text):
    page.locator("#status", has_text=text).wait_for(timeout=60_000)


def nothing_is_in_the_way(page):
    """Of people who see, hear or move otherwise, as far as axe-core can tell."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def canvas_of(place):
    """What a canvas shows, as a picture."""
    address = place.evaluate("canvas => canvas.toDataURL()")
    return Image.open(BytesIO(base64.b64decode(address.partition(",")[2]))).convert("RGB")


def pixels(page, caption):
    """What a map shows: [rows, columns, 3]."""
    return np.asarray(canvas_of(page.locator(f"canvas[aria-label='{caption}']")))


def seen(page, how):
    """`pixel_values` of the picture as the page has resized and cropped it."""
    image = Image.fromarray(pixels(page, "What the model sees"))
    return pixel_values([image], replace(how, resize=None, padded=False), image.size[::-1])


def in_page(page, module, call, *arguments):
    """What a function of the site's own modules gives."""
    program = f"async (given) => {{ const m = await import('/assets/{module}'); return {call}; }}"
    return page.evaluate(program, arguments)
