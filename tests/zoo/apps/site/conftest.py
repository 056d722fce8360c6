"""Fixtures of sites: built folders, packages of npm, a served site, and visits in a browser."""

import base64
import os
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.browser import served
from tests.command import call_zoo
from zoo.apps.embed.calls import embed
from zoo.apps.site.browser_runtime import ONNXRUNTIME_WEB, TRANSFORMERS_JS, write_package
from zoo.apps.site.write import write_site
from zoo.common.errors import ZooError
from zoo.common.progress import LogProgress
from zoo.data.digits.data import load_digits
from zoo.images.pixel_values import pixel_values

PICTURES = "vit_tiny_patch16_224"
"""A backbone with a classifier. It has random weights and is built quickly."""

WORDS = "siglip_digits_dual"
"""A network with a tower for pictures and one for texts."""

BOXES = "boxes_digits"
"""A detector. Its int8 file is too inexact to be built."""


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Built folders of the trained models of digits and of a random classifier of photographs."""
    out = tmp_path_factory.getbasetemp()
    # The workers of pytest-xdist share the folders, which are built once.
    out = (out.parent if "PYTEST_XDIST_WORKER" in os.environ else out) / "built"
    options = ("--variant", "fp32,int8", "--out", str(out), "--offline")
    assert call_zoo("build", "vit_digits", *options) == 0
    assert call_zoo("build", "depth_digits", *options) == 0
    assert call_zoo("build", WORDS, *options) == 0
    assert call_zoo("build", BOXES, "--variant", "fp32", *options[2:]) == 0
    assert call_zoo("build", PICTURES, "--weights", "random", *options) == 0
    names = ("vit_digits", PICTURES, "depth_digits", WORDS, BOXES)
    return [out / name for name in names]


@pytest.fixture(scope="session")
def runtime(tmp_path_factory):
    """A folder with onnxruntime-web and transformers.js.

    The test is skipped if npm's registry cannot be reached.
    """
    folder = tmp_path_factory.mktemp("package")
    try:
        for package in (ONNXRUNTIME_WEB, TRANSFORMERS_JS):
            write_package(package, None, folder / "dist", folder, LogProgress())
    except ZooError as error:
        pytest.skip(f"npm gives no {package.name} here: {error}")
    return folder


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """A folder of 60 pictures of digits, which are named by their row."""
    folder = tmp_path_factory.mktemp("pictures") / "digits"
    folder.mkdir()
    for row, image in enumerate(load_digits().images[:60]):
        Image.fromarray(image).save(folder / f"{row:02}.png")
    return folder


@pytest.fixture(scope="session")
def site(runtime, folders, digits, tmp_path_factory):
    """The written site of all folders, with a page that searches a dataset of digits."""
    root = tmp_path_factory.mktemp("www")
    dataset = embed([digits], model=folders[3], out=digits.parent / "d.lance", extra=("thumbnail",))
    return write_site(
        folders, root / "site", runtime, False, LogProgress(), runtime, dataset.dataset
    )


@pytest.fixture(scope="session")
def address(site):
    """The URL at which the site is served."""
    with served(site.folder) as url:
        yield url


@dataclass
class Visit:
    """A page of a browser, and the address of the site.

    `scheme` is 'light' or 'dark'.
    """

    page: object
    address: str
    shots: Path
    scheme: str

    def open(self, name="index.html"):
        """Go to a page of the site and return the page of the browser."""
        self.page.goto(self.address + name)
        return self.page

    def shoot(self, name, selector=None):
        """Write a screenshot of the page, or of the element that a selector matches."""
        width = f"{self.page.viewport_size['width']}-{self.scheme}"
        options = {} if selector else {"full_page": True}
        target = self.page.locator(selector) if selector else self.page
        target.screenshot(path=self.shots / f"{name}-{width}.png", **options)


@pytest.fixture(scope="session")
def shots(tmp_path_factory):
    """The folder of screenshots: `ZOO_SCREENSHOTS`, or a temporary folder."""
    folder = Path(os.environ.get("ZOO_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


STORED_NAMES = """async () => [
    ...Object.keys(localStorage), ...Object.keys(sessionStorage), ...await caches.keys(),
    ...(await indexedDB.databases()).map(({ name }) => name),
]"""


def is_success(response):
    """Return whether a response is a success or '304 Not Modified'."""
    return response.ok or response.status == 304


@pytest.fixture
def visit(request, chromium, address, shots):
    """A visit at a width of 1280 pixels in light colours, or with the test's width and scheme.

    Afterwards it is checked that the console has no errors, all responses are successes, no
    request left the site, and the browser stored nothing.
    """
    width, scheme = getattr(request, "param", (1280, "light"))
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=width < 600
    )
    urls, faults = [], []
    context.on("request", lambda outgoing: urls.append(outgoing.url))
    context.on(
        "response",
        lambda answer: is_success(answer) or faults.append(f"{answer.status} {answer.url}"),
    )
    context.on("console", lambda message: faults.append(f"{message.type}: {message.text}"))
    context.on("weberror", lambda event: faults.append(str(event.error)))
    page = context.new_page()
    yield Visit(page, address, shots, scheme)
    stored = page.evaluate(STORED_NAMES) + context.cookies()
    context.close()
    assert faults == [] and stored == []
    assert urls and [url for url in urls if not url.startswith((address, "blob:"))] == []


def wait_for_status(page, text):
    """Wait until the status of the page contains a text."""
    page.locator("#status", has_text=text).wait_for(timeout=60_000)


def assert_accessible(page):
    """Assert that axe-core finds no barrier for people with disabilities."""
    from axe_playwright_python.sync_playwright import Axe

    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()


def read_canvas(canvas):
    """Return the content of a canvas as a picture."""
    address = canvas.evaluate("canvas => canvas.toDataURL()")
    return Image.open(BytesIO(base64.b64decode(address.partition(",")[2]))).convert("RGB")


def read_map(page, caption):
    """Return the colours of the map with a caption: `[rows, columns, 3]`."""
    return np.asarray(read_canvas(page.locator(f"canvas[aria-label='{caption}']")))


def read_model_input(page, preprocessing):
    """Return `pixel_values` of the picture as the page resized and cropped it."""
    image = Image.fromarray(read_map(page, "What the model sees"))
    return pixel_values(
        [image], replace(preprocessing, resize=None, padded=False), image.size[::-1]
    )


def call_in_page(page, module, call, *arguments):
    """Evaluate an expression with a module `m` of the site and the list `given` of arguments."""
    program = f"async (given) => {{ const m = await import('/assets/{module}'); return {call}; }}"
    return page.evaluate(program, arguments)
