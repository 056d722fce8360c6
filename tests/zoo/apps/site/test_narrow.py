"""The page of a search at the width of a phone, without a model and without the runtime."""

import json
import shutil
from importlib.resources import as_file, files
from types import SimpleNamespace

import pytest
from jinja2 import Environment, PackageLoader

from tests.browser import served

KEYS = ["holiday/2024-05-03_Musée_d'Orsay_in_the_morning.jpg", "b.jpg"]


@pytest.fixture
def page(tmp_path, chromium):
    """The page of a search without thumbnails, rendered from its template."""
    search = {"pictures": None, "texts": None, "has_thumbnails": False, "keys": "keys.json"}
    entry, table = SimpleNamespace(name="vit"), SimpleNamespace(count=len(KEYS))
    searched = SimpleNamespace(
        name="holidays", table=table, bytes=9, built=SimpleNamespace(entry=entry)
    )
    templates = Environment(loader=PackageLoader("zoo.apps.site"), autoescape=True)
    templates.globals |= {"version": "0", "runtime_mb": "1"}
    text = templates.get_template("search.html.jinja").render(
        searched=searched, facts={"files": {}, "search": search}
    )
    (tmp_path / "search.html").write_text(text)
    (tmp_path / "keys.json").write_text(json.dumps({"keys": KEYS, "thumbnails": [False, False]}))
    with as_file(files("zoo.apps.site") / "assets") as assets:
        shutil.copytree(assets, tmp_path / "assets")
    with served(tmp_path) as address:
        shown = chromium.new_page(viewport={"width": 390, "height": 800}, base_url=address)
        yield shown
        shown.close()


def test_empty_searches_and_line_breaks_in_keys(page):
    page.goto("search.html")
    label = page.locator("#found .label").first
    label.wait_for()
    assert page.get_by_text("zoo embed --with thumbnail").is_visible()
    lines = label.evaluate("""label => {
        const range = document.createRange(), lines = new Map();
        for (const node of label.childNodes)
            for (let at = 0; at < (node.length ?? 0); at++) {
                range.setStart(node, at), range.setEnd(node, at + 1);
                const y = Math.round(range.getBoundingClientRect().top);
                lines.set(y, (lines.get(y) ?? "") + node.data[at]);
            }
        return [...lines.values()];
    }""")
    assert "".join(lines) == KEYS[0] and len(lines) > 2
    assert all(not line.rstrip()[-1].isalnum() for line in lines[:-1]), lines
    page.get_by_label("Only keys with").fill("zebra")
    assert page.get_by_text("No key of these 2 pictures has “zebra” in it.").is_visible()
    page.get_by_role("button", name="Show all pictures").click()
    assert page.locator("#found li").count() == 2 and not page.locator("#none").is_visible()
