"""`zoo site`: what it writes, what it refuses, and that nothing is half-written."""

import html
import json
import re
import shutil
from pathlib import Path

import pytest

from tests import folders as folders_of_files
from tests.clients import environments
from zoo.apps.site.browser_runtime import ONNXRUNTIME_WEB, TRANSFORMERS_JS
from zoo.apps.site.catalogue import Catalogue, build_catalogue
from zoo.apps.site.folders import read_folders
from zoo.apps.site.pages import demo_facts, render_pages
from zoo.apps.site.write import write_site
from zoo.artifacts.read import read_folder_manifest
from zoo.common.errors import BadFile, BadOutput, BadRequest, ZooError
from zoo.common.progress import LogProgress

from .conftest import PICTURES

LIMIT = 260_000
"""Bytes of pages, styles, programs and small pictures, for some models."""


TIMED = {"fp32": {"p50_ms": 1.0, "ratio": None}}


@pytest.mark.parametrize(
    ("more", "changes", "message"),
    [
        ({"evil.html": b"<script>"}, {}, r"lists evil\.html, which no build writes"),
        ({}, {"model": "../../evil"}, "whose name cannot name a folder"),
        ({}, {"model": '"; evil(); //'}, "whose name cannot name a folder"),
        ({}, {"variants": TIMED}, "takes other inputs than its timing"),
    ],
)
def test_folders_that_no_build_makes(more, changes, message, tmp_path):
    """A page or a program would have the site's own origin; names stand in programs."""
    held = folders_of_files.contents() | more
    variants = changes.pop("variants", {})
    speeds = {"runtime": "", "machine": "", "input": [1], "rounds": 1, "variants": variants}
    told = json.dumps(folders_of_files.manifest(held, speeds=speeds, **changes)).encode()
    folder = folders_of_files.write(tmp_path / "built", held | {"manifest.json": told})
    with pytest.raises(BadFile, match=message):
        read_folders([folder], LogProgress())


def test_folders_of_one_model(tmp_path):
    """The same files go beside each other if they were measured on another machine."""

    def built(name, machine, **more):
        held = folders_of_files.contents() | more
        speeds = {"runtime": "", "machine": machine, "input": [1], "rounds": 1, "variants": {}}
        told = json.dumps(folders_of_files.manifest(held, speeds=speeds)).encode()
        return folders_of_files.write(tmp_path / name, held | {"manifest.json": told})

    one, again, elsewhere = (built(m, m[:1]) for m in ("one", "once more", "elsewhere"))
    (found,) = read_folders([one, elsewhere], LogProgress())
    assert [each.machine for each in found.other_speeds] == ["e"]
    other = built("other", "x", **{"onnx/model.onnx": b"another"})
    for second in (again, other):
        with pytest.raises(BadRequest, match="are both of dinov3_vits16"):
            read_folders([one, second], LogProgress())


def test_a_file_has_no_page(tmp_path):
    """It is there, unlike what is not."""
    (tmp_path / "gpt.onnx").write_bytes(b"")
    with pytest.raises(BadRequest, match=r"gpt\.onnx is a file, and a page shows a folder"):
        read_folders([tmp_path / "gpt.onnx"], LogProgress())
    with pytest.raises(BadFile, match="does not exist"):
        read_folders([tmp_path / "none"], LogProgress())
    with pytest.raises(BadFile, match=r"gpt\.onnx is a file: give a folder"):
        read_folder_manifest(tmp_path / "gpt.onnx")


def test_no_program_is_made_of_a_manifest(tmp_path):
    """The programs of a page have nothing of it but names, as texts of their language."""
    evil = '"}; evil(); //'
    tensor = {"name": evil, "dtype": "float32", "shape": ["n", 3]}
    held = folders_of_files.contents()
    told = folders_of_files.manifest(held, source=evil, sizes=evil, tools={"x": evil})
    told["variants"] = {
        "fp32": told["variants"]["fp32"] | {"outputs": [tensor], "inputs": [tensor]}
    }
    told["speeds"] = {"runtime": evil, "machine": evil, "input": [1], "rounds": 1, "variants": {}}
    files = held | {"manifest.json": json.dumps(told).encode()}
    built = read_folders([folders_of_files.write(tmp_path / "built", files)], LogProgress())
    (row,) = build_catalogue(built, LogProgress()).rows
    page = render_pages(built, Catalogue("", "", [row]), 0, None, {})[f"{row.model}.html"]
    programs = [html.unescape(text) for text in re.findall("<code>([^<]*)</code></pre>", page)]
    assert len(programs) > 2
    assert [text.count("evil()") for text in programs if "evil()" in text] == [1]
    assert f"{{{json.dumps(evil)}}}" in "".join(programs)


@pytest.mark.parametrize(("model", "first"), [("dinov3_vits16", 1), ("vit_tiny_patch16_224", 0)])
def test_features_are_shown_at_a_size_with_more_patches(model, first, tmp_path):
    """What answers is shown at its own size."""
    held = folders_of_files.contents()
    told = folders_of_files.manifest(held, model=model, size=None)
    told["preprocessing"]["size"] = [224, 224]
    told["speeds"] = {"runtime": "", "machine": "", "input": [1], "rounds": 1, "variants": {}}
    files = held | {"manifest.json": json.dumps(told).encode()}
    (built,) = read_folders([folders_of_files.write(tmp_path / "built", files)], LogProgress())
    shown = demo_facts(built)
    assert shown["sizes"] == [(224, 224), (448, 448), (672, 672)]
    assert shown["first_size"] == first


def test_pages_have_the_library_that_clients_are_tested_with():
    """And the page about them names its versions."""
    page = (environments.HERE.parents[1] / "docs" / "how-to" / "browser.md").read_text()
    pinned = json.loads((environments.HERE / "package.json").read_text())["dependencies"]
    for package in (TRANSFORMERS_JS, ONNXRUNTIME_WEB):
        assert pinned[package.name] == package.version
        assert f"{package.name}@{package.version}" in page


def test_what_stands_where_a_site_goes(tmp_path, monkeypatch):
    """The folder that somebody works in stays. A link is the user's, and a site that was moved
    aside by a process that died comes back."""
    out, old = tmp_path / "site", tmp_path / ".zoo-site.old"
    out.mkdir()
    (out / "link").symlink_to(tmp_path)
    with pytest.raises(BadOutput, match=r"files that belong to no site \(link\)"):
        write_site([], out, None, True, LogProgress())
    monkeypatch.chdir(out)
    for place in (".", "..", "/", "new/.."):
        with pytest.raises(BadOutput, match="contains the current folder"):
            write_site([], Path(place), None, True, LogProgress())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(BadOutput, match="loop is no folder"):
        write_site([], Path("loop"), None, True, LogProgress())
    nested = tmp_path / "nested"
    nested.mkdir()
    (nested / "catalogue.json").write_text("[" * 100_000)
    with pytest.raises(BadOutput, match=r"files that belong to no site \(catalogue"):
        write_site([], nested, None, True, LogProgress())
    out.rename(old)
    with pytest.raises(ZooError):
        write_site([], out, tmp_path, True, LogProgress())
    assert (out / "link").is_symlink() and not old.exists()


@pytest.mark.full
def test_what_is_written(made, folders):
    site = made.folder
    record = json.loads((site / "catalogue.json").read_text())
    there = folders_of_files.listed(site)
    assert there == {*record["files"], "catalogue.json"}
    assert made.own_bytes < LIMIT
    for folder in folders:
        copied = site / "models" / folder.name
        for name in folders_of_files.listed(folder):
            assert (copied / name).read_bytes() == (folder / name).read_bytes()
    # Nothing inside a page that the policy would have to allow.
    forbidden = re.compile(r"<script(?![^>]*(src=|application/json))| style=| on\w+=|<style")
    for page in site.glob("*.html"):
        text = page.read_text()
        assert not forbidden.search(text)
        assert there.issuperset(re.findall(r'(?:src|href)="(?!https|#)([^"?]+)', text))
    text = (site / f"{PICTURES}.html").read_text()
    assert "These weights are random." in text
    # Twelve blocks, which are drawn once; what the model is for; and where to read about it.
    assert text.count("<strong>12 ") == 2
    assert "Says which of 1,000 classes a picture shows, such as tench, goldfish or" in text
    assert 'href="https://arxiv.org/abs/2010.11929"' in text
    assert len(record["rows"]) == 13
    for row in record["rows"]:
        (folder,) = [folder for folder in folders if folder.name == row["model"]]
        manifest = json.loads((folder / "manifest.json").read_text())
        variant = manifest["variants"][row["variant"]]
        errors = [each["max_abs"] for each in variant["verification"]["comparisons"]]
        assert row["error"] == max(errors) and row["parameters"] == manifest["parameters"]
        assert row["bytes"] == (folder / row["file"]).stat().st_size
        timed = manifest["speeds"]["variants"].get(row["variant"])
        assert timed or row["variant"].startswith(("text_", "vision_"))
        if timed:
            assert row["p50_ms"] == timed["p50_ms"]
            assert row["peak_bytes"] > 1e6 and row["multiply_adds"] > 0
    # 12 blocks of 12 * 192 ** 2 on 197 tokens, their attention, the patches and the classifier.
    blocks = 12 * (197 * 12 * 192**2 + 2 * 197**2 * 192)
    by_hand = blocks + 196 * 768 * 192 + 192 * 1000
    assert record["rows"][2]["multiply_adds"] == pytest.approx(by_hand, rel=1e-3)


@pytest.mark.full
def test_a_site_is_replaced_whole_or_not_at_all(runtime, folders, zoo):
    out, digits = zoo.here / "out", zoo.here / "digits"
    shutil.copytree(folders[0], digits)
    write_site([digits], out, runtime, False, LogProgress(), runtime)
    before = (out / "index.html").read_bytes()
    wrong = zoo.here / "wrong"
    shutil.copytree(runtime / "dist", wrong / "dist")
    (wrong / "dist" / next(iter(ONNXRUNTIME_WEB.files))).write_text("another one")
    (wrong / "package.tgz").write_text("no archive")
    again = (digits, "--out", out, "--transformers", runtime)
    for told, arguments in {
        "add --force": (*again, "--runtime", runtime),
        "are both of vit_digits": (digits, folders[0], "--out", zoo.here / "2"),
        "is not onnxruntime-web": (*again, "--runtime", wrong, "--force"),
        "is no archive of": (*again, "--runtime", wrong / "package.tgz", "--force"),
    }.items():
        assert told in zoo("site", *arguments, code=2).error
    assert (out / "index.html").read_bytes() == before
    # The same files, measured on another machine, are beside those.
    elsewhere = zoo.here / "elsewhere"
    shutil.copytree(digits, elsewhere)
    manifest = json.loads((digits / "manifest.json").read_text())
    manifest["speeds"] |= {"machine": "another one, 64 cores", "others": 3.21}
    (elsewhere / "manifest.json").write_text(json.dumps(manifest))
    write_site([digits, elsewhere], out, runtime, True, LogProgress(), runtime)
    rows = re.findall(r'<th scope="row">(.+?) <small>', (out / "vit_digits.html").read_text())
    assert rows == [
        read_folders([digits], LogProgress())[0].speeds.machine,
        "another one, 64 cores",
    ]
    assert "busy: other programs took 3.2 cores" in (out / "vit_digits.html").read_text()
    # A variant that is not there is not shown, as in a folder that was pulled.
    (digits / "onnx" / "model_quantized.onnx").unlink()
    write_site([digits], out, runtime, True, LogProgress(), runtime)
    (row,) = json.loads((out / "catalogue.json").read_text())["rows"]
    assert row["variant"] == "fp32"
    with (digits / "onnx" / "model.onnx").open("ab") as file:
        file.write(b"more")
    assert "differs from its manifest" in zoo("site", *again, "--force", code=2).error
    assert not [path for path in zoo.here.iterdir() if path.name.startswith(".zoo")]
