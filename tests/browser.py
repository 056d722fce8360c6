"""A browser, and folders that it can ask for files."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = ("chromium-headless-shell", "chromium", "google-chrome")


@contextmanager
def chromium_of_debian() -> Iterator[Any]:
    """Debian's browser, driven by Playwright, which downloads none here. Skips where one of them is
    missing."""
    told = "there is no Playwright here: the extra [test] brings it"
    playwright = pytest.importorskip("playwright.sync_api", reason=told)
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.skip(f"there is no browser here: `apt-get install {CHROMIUM[0]}` brings one")
    with playwright.sync_playwright() as started:
        # Root has no sandbox.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = started.chromium.launch(executable_path=found, args=flags)
        yield browser
        browser.close()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which a folder is served as any web server would."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
