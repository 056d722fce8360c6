"""Files that are pictures of another kind, or no pictures: each is told, none is lost."""

import io
import os
import tarfile
from collections import Counter

import numpy as np
import pytest
from PIL import Image, ImageOps

import zoo as package
from tests import folders
from tests.zoo.apps.embed.conftest import by_hand
from tests.zoo.apps.embed.test_embed import errors, rows
from zoo.apps.embed.sources import expand_braces, list_names, state_sources
from zoo.common.errors import BadRequest
from zoo.images.pictures import read_picture

NO_UTF8 = os.fsdecode(b"caf\xe9")
UNREAD = ("a.heic", "b.AVIF", "c.jxl", "d.mpo", "IMG_0001", "e.cr2")


def test_a_folder_has_a_row_or_a_reason_for_each(zoo, stub, pictures):
    whole = pictures["a/000.jpg"]
    names = ("ok.jpg", *UNREAD, f"{NO_UTF8}.jpg", f"{NO_UTF8}/x.jpg", "notes.txt", "s.xmp", "z.txt")
    folder = folders.write(zoo.here / "in", dict.fromkeys(names, whole))
    (zoo.here / "elsewhere").mkdir()
    (folder / "linked").symlink_to(zoo.here / "elsewhere")
    (folder / "linked.v2").symlink_to(zoo.here / "elsewhere")
    (folder / "nowhere.jpg").symlink_to(zoo.here / "nowhere.jpg")
    os.mkfifo(folder / "pipe.jpg")
    (folder / "folder.jpg").mkdir()
    command = ("embed", folder, "--model", stub, "--out", "x.lance")
    said = zoo.json(*command, code=1)
    told = errors(zoo.here / "x.lance")
    bad = {"caf\\xe9.jpg", "caf\\xe9/x.jpg", "linked", "linked.v2", "nowhere.jpg", "pipe.jpg"}
    assert told.keys() == {*UNREAD} | bad and said["errors"] == len(told)
    assert [*rows(zoo.here / "x.lance")] == ["ok.jpg"]
    assert "HEIC" in told["a.heic"] and "without an ending" in told["IMG_0001"]
    assert "no UTF-8" in told["caf\\xe9.jpg"] and "link to a folder" in told["linked.v2"]


def test_a_tar_has_a_row_or_a_reason_for_each(tmp_path, stub, pictures):
    whole = pictures["a/000.jpg"]
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name in ("ok.jpg", *UNREAD, f"{NO_UTF8}.jpg", "ok.cls"):
            member = tarfile.TarInfo(name)
            member.size = len(whole)
            archive.addfile(member, io.BytesIO(whole))
        member = tarfile.TarInfo("link.jpg")
        member.type, member.linkname = tarfile.SYMTYPE, "ok.jpg"
        archive.addfile(member)
    package.embed(tmp_path / "x.tar", model=stub, out=tmp_path / "x.lance")
    assert [*rows(tmp_path / "x.lance")] == ["ok.jpg"]
    told = errors(tmp_path / "x.lance")
    assert told.keys() == {*UNREAD, "caf\\xe9.jpg", "link.jpg"}


@pytest.mark.parametrize("name", ["x.heic", "*.heic", "list.txt"])
def test_a_file_that_is_named_is_not_passed_over(name, tmp_path, stub):
    (tmp_path / "x.heic").write_bytes(b"\0\0\0\x18ftypheic")
    (tmp_path / "list.txt").write_text("x.heic\n")
    package.embed(tmp_path / name, model=stub, out=tmp_path / "x.lance")
    assert [*errors(tmp_path / "x.lance")] == ["x.heic"]


NAMES = ("in/0.png", "in/caf\u00e9.png")
ENCODINGS = {
    "utf-8": "\n".join(NAMES).encode(),
    "Notepad": "\r\n".join((*NAMES, "")).encode("utf-8-sig"),
    "PowerShell": "\r\n".join((*NAMES, "")).encode("utf-16"),
    "big-endian": "\n".join(("\ufeff" + NAMES[0], NAMES[1])).encode("utf-16-be"),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_list_in_the_encodings_of_systems(encoding, tmp_path):
    (tmp_path / "list.txt").write_bytes(ENCODINGS[encoding])
    (source,) = state_sources([str(tmp_path / "list.txt")])
    assert [name for name, _ in list_names(source, Counter())] == [*NAMES]


@pytest.mark.parametrize(
    "content", [b"a\0b\n", b"\xff\xfea\0\n", "a.png\n".encode("utf-32"), b"x\n\0\n"]
)
def test_a_list_that_is_no_text_is_refused(content, tmp_path):
    (tmp_path / "list.txt").write_bytes(content)
    (source,) = state_sources([str(tmp_path / "list.txt")])
    with pytest.raises(BadRequest, match=r"list\.txt .* UTF-8"):
        list(list_names(source, Counter()))


def test_a_source_whose_name_is_no_text(tmp_path, stub):
    place = tmp_path / NO_UTF8
    place.mkdir()
    with pytest.raises(BadRequest, match=r"caf\\xe9 is no UTF-8"):
        package.embed(place, model=stub, out=tmp_path / "x.lance")


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("kind", ["TIFF", "JPEG", "PNG"])
def test_a_turned_picture_has_the_sides_after_turning(kind, turn):
    """Whatever Pillow turns while it opens a file; `exif_transpose` says which way is up."""
    pixels = np.kron(np.arange(2 * 3 * 3).reshape(2, 3, 3) * 14, np.ones((100, 110, 1)))
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x112] = turn
    Image.fromarray(pixels.astype(np.uint8)).save(file, kind, exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(file.getvalue())))
    read = read_picture(file.getvalue(), "x")
    assert read.original_size == (upright.height, upright.width) == read.image.size[::-1]
    np.testing.assert_array_equal(np.asarray(read.image), np.asarray(upright.convert("RGB")))
    smaller = read_picture(file.getvalue(), "x", lambda height, width: (height // 4, width // 4))
    assert smaller.original_size == read.original_size and smaller.image.width < read.image.width
    shown = np.asarray(smaller.image.resize((6, 6), Image.Resampling.BOX, smaller.part), float)
    wanted = np.asarray(read.image.resize((6, 6), Image.Resampling.BOX), float)
    assert np.abs(shown - wanted).max() < 14


@pytest.mark.parametrize("exact", [True, False])
def test_a_picture_finds_itself(exact, tmp_path, stub):
    """With the very numbers of its row, whether it was made smaller while decoded or not."""
    random, folder = np.random.default_rng(2), tmp_path / "in"
    folder.mkdir()
    for name in ("a.jpg", "b.png", "c.tiff"):
        pixels = random.integers(0, 256, (901, 700, 3), np.uint8)
        Image.fromarray(pixels).save(folder / name)
    out = tmp_path / "x.lance"
    package.embed(folder, model=stub, out=out, draft=not exact, dtype="float32")
    for name in ("a.jpg", "b.png", "c.tiff"):
        (best, *_) = package.search(out, folder / name)
        assert best.key == name and abs(best.cosine - 1) < 2e-7
    (best, *_) = package.search(out, Image.open(folder / "b.png"))
    assert best.key == "b.png" and abs(best.cosine - 1) < 2e-7


@pytest.mark.parametrize("sides", [(4000, 3000), (300, 1000), (60, 50), (30, 1500)])
def test_thumbnails_keep_proportions(sides, tmp_path, stub):
    """Of networks that squash what they are given; the vectors are the same without them."""
    (tmp_path / "in").mkdir()
    image = Image.radial_gradient("L").resize(sides).convert("RGB")
    image.save(tmp_path / "in" / "a.jpg", quality=95)
    package.embed(tmp_path / "in", model=stub, out=tmp_path / "x.lance", extra=["thumbnail"])
    (row,) = rows(tmp_path / "x.lance").values()
    small, wanted = Image.open(io.BytesIO(row["thumbnail"])), image.copy()
    wanted.thumbnail((128, 128))
    assert all(abs(own - side) <= 1 for own, side in zip(small.size, wanted.size, strict=True))
    resized = np.asarray(wanted.resize(small.size), float)
    assert np.abs(np.asarray(small, float) - resized).mean() < 4
    package.embed(tmp_path / "in", model=stub, out=tmp_path / "y.lance")
    (plain,) = rows(tmp_path / "y.lance").values()
    assert plain["vector"] == row["vector"]
    data = (tmp_path / "in" / "a.jpg").read_bytes()
    np.testing.assert_allclose(row["vector"], by_hand(data), atol=0.03)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a.tar", ["a.tar"]),
        ("{08..10}.tar", ["08.tar", "09.tar", "10.tar"]),
        ("{2..0}-{a,b}", ["2-a", "2-b", "1-a", "1-b", "0-a", "0-b"]),
    ],
)
def test_braces_stand_for_several_names(text, names):
    assert expand_braces(text) == names
