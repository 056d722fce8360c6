"""`zoo site`: its files, folders that are refused, and replacing an earlier site."""

import html
import json
import re
import shutil
from pathlib import Path

import pytest

from tests import folders as folders_of_files
from tests.clients import environments
from zoo.apps.site.browser_runtime import ONNXRUNTIME_WEB, TRANSFORMERS_JS
from zoo.apps.site.catalogue import Catalogue, CatalogueRow, build_catalogue
from zoo.apps.site.folders import read_folders
from zoo.apps.site.pages import catalogue_cells, demo_facts, render_pages
from zoo.apps.site.write import write_site
from zoo.artifacts.read import read_folder_manifest
from zoo.common.errors import BadFile, BadOutput, BadRequest, ZooError
from zoo.common.progress import LogProgress

from .conftest import PICTURES

LIMIT = 260_000
"""The largest size in bytes of pages, styles, programs and small pictures for five models."""


SPEED_OF_FP32 = {"fp32": {"p50_ms": 1.0, "ratio": None}}


@pytest.mark.parametrize(
    ("further_files", "changes", "message"),
    [
        ({"evil.html": b"<script>"}, {}, r"lists evil\.html, which no build writes"),
        ({}, {"model": "../../evil"}, "whose name cannot name a folder"),
        ({}, {"model": '"; evil(); //'}, "whose name cannot name a folder"),
        ({}, {"variants": SPEED_OF_FP32}, "takes other inputs than its timing"),
    ],
)
def test_folders_that_no_build_writes_are_refused(further_files, changes, message, tmp_path):
    """Pages and programs in a folder would have the origin of the site, and names are parts of
    programs."""
    contents = folders_of_files.contents() | further_files
    variants = changes.pop("variants", {})
    speeds = {"runtime": "", "machine": "", "input": [1], "rounds": 1, "variants": variants}
    manifest = json.dumps(folders_of_files.manifest(contents, speeds=speeds, **changes)).encode()
    folder = folders_of_files.write(tmp_path / "built", contents | {"manifest.json": manifest})
    with pytest.raises(BadFile, match=message):
        read_folders([folder], LogProgress())


@pytest.mark.parametrize(
    ("uncounted", "busy", "signs"),
    [
        (2, True, {"multiply_adds": "≥", "p50_ms": "≤"}),
        (0, True, {"p50_ms": "≤"}),
        (2, False, {"multiply_adds": "≥"}),
    ],
)
def test_bounds_in_the_table(uncounted, busy, signs):
    """`≥` is before a number of products that leaves some out, `≤` before a time of a busy
    machine."""
    texts = dict.fromkeys(("variant", "file", "family", "precision", "input", "licence"), "a")
    row = CatalogueRow(
        **texts,
        **{"model": "vit_digits", "opset": 23, "parameters": 5, "bytes": 7, "random": False},
        **{"error": 1e-6, "cosine": 1.0, "p50_ms": 2.0, "busy": busy, "ratio": 1.5},
        **{"multiply_adds": 10**9, "uncounted": uncounted},
    )
    cells = catalogue_cells(row)
    shown = {field: str(cell.text)[0] for field, cell in cells.items() if cell.number is not None}
    assert {field: sign for field, sign in shown.items() if sign in "≥≤"} == signs


def test_folders_of_one_model(tmp_path):
    """Folders with the same files are merged if they were measured on different machines."""

    def write_folder(name, machine, **further_files):
        contents = folders_of_files.contents() | further_files
        speeds = {"runtime": "", "machine": machine, "input": [1], "rounds": 1, "variants": {}}
        manifest = json.dumps(folders_of_files.manifest(contents, speeds=speeds)).encode()
        return folders_of_files.write(tmp_path / name, contents | {"manifest.json": manifest})

    first, same_machine, other_machine = (
        write_folder(m, m[:1]) for m in ("one", "once more", "elsewhere")
    )
    (merged,) = read_folders([first, other_machine], LogProgress())
    assert [speeds.machine for speeds in merged.other_speeds] == ["e"]
    other_files = write_folder("other", "x", **{"onnx/model.onnx": b"another"})
    for second in (same_machine, other_files):
        with pytest.raises(BadRequest, match="are both of dinov3_vits16"):
            read_folders([first, second], LogProgress())


def test_files_and_missing_folders_are_refused(tmp_path):
    """The error says whether the path is a file or does not exist."""
    (tmp_path / "gpt.onnx").write_bytes(b"")
    with pytest.raises(BadRequest, match=r"gpt\.onnx is a file, and a page shows a folder"):
        read_folders([tmp_path / "gpt.onnx"], LogProgress())
    with pytest.raises(BadFile, match="does not exist"):
        read_folders([tmp_path / "none"], LogProgress())
    with pytest.raises(BadFile, match=r"gpt\.onnx is a file: give a folder"):
        read_folder_manifest(tmp_path / "gpt.onnx")


def test_programs_quote_texts_of_a_manifest(tmp_path):
    """Programs of a page contain only names of a manifest, as string literals."""
    evil = '"}; evil(); //'
    tensor = {"name": evil, "dtype": "float32", "shape": ["n", 3]}
    contents = folders_of_files.contents()
    manifest = folders_of_files.manifest(contents, source=evil, sizes=evil, tools={"x": evil})
    manifest["variants"] = {
        "fp32": manifest["variants"]["fp32"] | {"outputs": [tensor], "inputs": [tensor]}
    }
    manifest["speeds"] = {
        "runtime": evil,
        "machine": evil,
        "input": [1],
        "rounds": 1,
        "variants": {},
    }
    files = contents | {"manifest.json": json.dumps(manifest).encode()}
    write_folder = read_folders([folders_of_files.write(tmp_path / "built", files)], LogProgress())
    (row,) = build_catalogue(write_folder, LogProgress()).rows
    page = render_pages(write_folder, Catalogue("", "", [row]), 0, None, {})[f"{row.model}.html"]
    programs = [html.unescape(text) for text in re.findall("<code>([^<]*)</code></pre>", page)]
    assert len(programs) > 2
    assert [text.count("evil()") for text in programs if "evil()" in text] == [1]
    assert f"{{{json.dumps(evil)}}}" in "".join(programs)


@pytest.mark.parametrize(("model", "first"), [("dinov3_vits16", 1), ("vit_tiny_patch16_224", 0)])
def test_features_are_shown_at_a_size_with_more_patches(model, first, tmp_path):
    """A classifier starts at its own size."""
    contents = folders_of_files.contents()
    manifest = folders_of_files.manifest(contents, model=model, size=None)
    manifest["preprocessing"]["size"] = [224, 224]
    manifest["speeds"] = {"runtime": "", "machine": "", "input": [1], "rounds": 1, "variants": {}}
    files = contents | {"manifest.json": json.dumps(manifest).encode()}
    (write_folder,) = read_folders(
        [folders_of_files.write(tmp_path / "built", files)], LogProgress()
    )
    facts = demo_facts(write_folder)
    assert facts["sizes"] == [(224, 224), (448, 448), (672, 672)]
    assert facts["first_size"] == first


def test_pages_have_the_library_that_clients_are_tested_with():
    """The versions are those of `package.json` and of the documentation."""
    page = (environments.HERE.parents[1] / "docs" / "how-to" / "browser.md").read_text()
    pinned = json.loads((environments.HERE / "package.json").read_text())["dependencies"]
    for package in (TRANSFORMERS_JS, ONNXRUNTIME_WEB):
        assert pinned[package.name] == package.version
        assert f"{package.name}@{package.version}" in page


def test_folders_that_a_site_does_not_replace(tmp_path, monkeypatch):
    """Folders with files of the user, and the current folder, are not replaced. A site that a
    killed process moved aside is restored."""
    out, moved_aside = tmp_path / "site", tmp_path / ".zoo-site.old"
    out.mkdir()
    (out / "link").symlink_to(tmp_path)
    with pytest.raises(BadOutput, match=r"files that belong to no site \(link\)"):
        write_site([], out, None, True, LogProgress())
    monkeypatch.chdir(out)
    for name in (".", "..", "/", "new/.."):
        with pytest.raises(BadOutput, match="contains the current folder"):
            write_site([], Path(name), None, True, LogProgress())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(BadOutput, match="loop is no folder"):
        write_site([], Path("loop"), None, True, LogProgress())
    nested = tmp_path / "nested"
    nested.mkdir()
    (nested / "catalogue.json").write_text("[" * 100_000)
    with pytest.raises(BadOutput, match=r"files that belong to no site \(catalogue"):
        write_site([], nested, None, True, LogProgress())
    out.rename(moved_aside)
    with pytest.raises(ZooError):
        write_site([], out, tmp_path, True, LogProgress())
    assert (out / "link").is_symlink() and not moved_aside.exists()


@pytest.mark.full
def test_files_of_a_site(site, folders):
    root = site.folder
    record = json.loads((root / "catalogue.json").read_text())
    names = folders_of_files.listed(root)
    assert names == {*record["files"], "catalogue.json"}
    assert site.own_bytes < LIMIT
    for folder in folders:
        copy = root / "models" / folder.name
        for name in folders_of_files.listed(folder):
            assert (copy / name).read_bytes() == (folder / name).read_bytes()
    # Pages contain no inline scripts and styles, which the content security policy forbids.
    forbidden = re.compile(r"<script(?![^>]*(src=|application/json))| style=| on\w+=|<style")
    for page in root.glob("*.html"):
        text = page.read_text()
        assert not forbidden.search(text)
        assert names.issuperset(re.findall(r'(?:src|href)="(?!https|#)([^"?]+)', text))
    text = (root / f"{PICTURES}.html").read_text()
    assert "These weights are random." in text
    # The twelve blocks are drawn once. The page states the purpose and links the paper.
    assert text.count("<strong>12 ") == 2
    assert "Says which of 1,000 classes a picture shows, such as tench, goldfish or" in text
    assert 'href="https://arxiv.org/abs/2010.11929"' in text
    assert len(record["rows"]) == 13
    for row in record["rows"]:
        (folder,) = [folder for folder in folders if folder.name == row["model"]]
        manifest = json.loads((folder / "manifest.json").read_text())
        variant = manifest["variants"][row["variant"]]
        errors = [comparison["max_abs"] for comparison in variant["verification"]["comparisons"]]
        assert row["error"] == max(errors) and row["parameters"] == manifest["parameters"]
        assert row["bytes"] == (folder / row["file"]).stat().st_size
        speed = manifest["speeds"]["variants"].get(row["variant"])
        assert speed or row["variant"].startswith(("text_", "vision_"))
        if speed:
            assert row["p50_ms"] == speed["p50_ms"]
            assert row["peak_bytes"] > 1e6 and row["multiply_adds"] > 0
    # 12 blocks of 12 * 192 ** 2 weights on 197 tokens, attention, the patches, the classifier.
    blocks = 12 * (197 * 12 * 192**2 + 2 * 197**2 * 192)
    expected = blocks + 196 * 768 * 192 + 192 * 1000
    assert record["rows"][2]["multiply_adds"] == pytest.approx(expected, rel=1e-3)


@pytest.mark.full
def test_a_site_is_replaced_completely_or_not_at_all(runtime, folders, zoo):
    out, digits = zoo.here / "out", zoo.here / "digits"
    shutil.copytree(folders[0], digits)
    write_site([digits], out, runtime, False, LogProgress(), runtime)
    old_index = (out / "index.html").read_bytes()
    wrong_runtime = zoo.here / "wrong"
    shutil.copytree(runtime / "dist", wrong_runtime / "dist")
    (wrong_runtime / "dist" / next(iter(ONNXRUNTIME_WEB.files))).write_text("another one")
    (wrong_runtime / "package.tgz").write_text("no archive")
    same_machine = (digits, "--out", out, "--transformers", runtime)
    for message, arguments in {
        "add --force": (*same_machine, "--runtime", runtime),
        "are both of vit_digits": (digits, folders[0], "--out", zoo.here / "2"),
        "is not onnxruntime-web": (*same_machine, "--runtime", wrong_runtime, "--force"),
        "is no archive of": (*same_machine, "--runtime", wrong_runtime / "package.tgz", "--force"),
    }.items():
        assert message in zoo("site", *arguments, code=2).error
    assert (out / "index.html").read_bytes() == old_index
    # The page shows speeds of the same files on another machine.
    other_machine = zoo.here / "elsewhere"
    shutil.copytree(digits, other_machine)
    manifest = json.loads((digits / "manifest.json").read_text())
    manifest["speeds"] |= {"machine": "another one, 64 cores", "others": 3.21}
    (other_machine / "manifest.json").write_text(json.dumps(manifest))
    write_site([digits, other_machine], out, runtime, True, LogProgress(), runtime)
    rows = re.findall(r'<th scope="row">(.+?) <small>', (out / "vit_digits.html").read_text())
    assert rows == [
        read_folders([digits], LogProgress())[0].speeds.machine,
        "another one, 64 cores",
    ]
    assert "busy: other programs took 3.2 cores" in (out / "vit_digits.html").read_text()
    # A variant whose file is missing, as in a pulled folder, is not shown.
    (digits / "onnx" / "model_quantized.onnx").unlink()
    write_site([digits], out, runtime, True, LogProgress(), runtime)
    (row,) = json.loads((out / "catalogue.json").read_text())["rows"]
    assert row["variant"] == "fp32"
    with (digits / "onnx" / "model.onnx").open("ab") as file:
        file.write(b"more")
    assert "differs from its manifest" in zoo("site", *same_machine, "--force", code=2).error
    assert not [path for path in zoo.here.iterdir() if path.name.startswith(".zoo")]
