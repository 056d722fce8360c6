"""A headless browser for tests, and a web server that serves a folder to it."""

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
    """Start a browser that is installed on this machine, driven by Playwright, and close it after
    the block. Playwright downloads no browser of its own. Skips the test if Playwright or a browser
    is missing."""
    reason = "Playwright is not installed: install the extra [test]"
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    executable = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if executable is None:
        pytest.skip(f"no browser is installed: run `apt-get install {CHROMIUM[0]}`")
    with playwright.sync_playwright() as api:
        # Chromium's sandbox does not run as root.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = api.chromium.launch(executable_path=executable, args=flags)
        yield browser
        browser.close()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of loopback while the block runs. The block receives the
    server's address."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
