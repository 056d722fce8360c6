"""Random changes of zip and tar archives, of LZ4 frames, and of sequences of `.npy` records."""

import io
import random
import re
import tarfile
import zipfile
from collections.abc import Callable

import lz4.frame

from tests.files.changes import change_json, draw_number, flat

Change = Callable[[random.Random, bytes], bytes]
BLOCK = tarfile.BLOCKSIZE

SHAPES = ("", "1", "2,", "0, 4", "1, " * 7 + "1", "1, " * 8 + "1", "99999999999999,", "-1,", "1L,")
SHAPES += ("281474976710655, " * 8, "1, " * 4000, "65536, 65536, 65536, 65536")
TYPES = ("<f4", "<f2", "|V2", "<V2", "<f8", "|O", ">f4", "<U9999", "<i8", "|b1", "<f0")
TYPES += ("[('a', 1)]",)


def change_arrays(rng: random.Random, data: bytes) -> bytes:
    """Change a header in a sequence of `.npy` records."""
    if rng.random() < 0.3:
        return flat(rng, data)
    header = rng.choice(list(re.finditer(rb"\{'descr'[^\n]*\n", data)))
    text = header[0].decode("latin-1")
    order_value = rng.choice(("True", "None", "0", "__import__('os')"))
    texts = (
        re.sub(r"\(.*?\)", f"({rng.choice(SHAPES)})", text),
        re.sub(r"'[<>|=]\w+'", f"'{rng.choice(TYPES)}'", text),
        text.replace("False", order_value),
        flat(rng, header[0]).decode("latin-1"),
    )
    changed = rng.choice(texts).encode("latin-1")
    start, end = header.span()
    # In one of ten files the length of the header is wrong.
    size = (
        min(len(changed), 65535).to_bytes(2, "little") if rng.random() < 0.9 else draw_number(rng)
    )
    return data[: start - 2] + size + changed + data[end:]


def change_zip(rng: random.Random, data: bytes, change: Change, favourite: str) -> bytes:
    """Change a member of a zip archive, or a number in its tables.

    Members whose names end in `favourite` are preferred, and changed by `change`.
    """
    if rng.random() < 0.15:
        return flat(rng, data)
    if rng.random() < 0.35:
        header_starts = [
            m.start() for m in re.finditer(rb"PK(\x01\x02|\x03\x04|\x05\x06|\x06.)", data)
        ]
        at, value = rng.choice(header_starts) + rng.randrange(4, 46), draw_number(rng)
        return data[:at] + value + data[at + len(value) :]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    favourites = [name for name in contents if name.endswith(favourite)]
    name = rng.choice(favourites if rng.random() < 0.85 else list(contents))
    contents[name] = (change if name in favourites else flat)(rng, contents[name])
    if rng.random() < 0.1:
        contents[rng.choice(("../a", "", "a/data.pkl", "w/data/0/", "x" * 70))] = contents.pop(name)
    out, method = io.BytesIO(), rng.choice((zipfile.ZIP_STORED,) * 4 + (zipfile.ZIP_DEFLATED,))
    with zipfile.ZipFile(out, "w", method) as archive:
        for key, content in contents.items():
            archive.writestr(zipfile.ZipInfo(key), content, archive.compression)
    return out.getvalue()


def change_equimo_archive(rng: random.Random, data: bytes) -> bytes:
    """Change a member, a header or the frame of an Equimo archive."""
    change = rng.choice((flat, change_blocks, change_members, change_headers))
    if change in (flat, change_blocks):
        return change(rng, data)
    return lz4.frame.compress(
        change(rng, lz4.frame.decompress(data)),
        block_size=rng.choice((0, 4, 5, 6, 7)),
        block_linked=rng.random() < 0.5,
        content_checksum=rng.random() < 0.3,
        block_checksum=rng.random() < 0.3,
        store_size=rng.random() < 0.5,
    )


def change_blocks(rng: random.Random, frame: bytes) -> bytes:
    """Cut, repeat, empty or damage a block of a frame, or change its length."""
    at = start = 7 + 8 * (frame[4] >> 3 & 1)
    parts = []
    while size := int.from_bytes(frame[at : at + 4], "little") & 0x7FFFFFFF:
        size += 4 + 4 * (frame[4] >> 4 & 1)
        parts.append(frame[at : at + size])
        at += size
    index = rng.randrange(len(parts))
    block = parts[index]
    replacements = (
        block * rng.choice((0, 2, 10)),
        draw_number(rng).ljust(4, b"\0")[:4] + block[4:],
        b"\x01\x00\x00\x00\x00" * rng.choice((1, 20_000)) + block,
        block[:4] + flat(rng, block[4:]),
    )
    parts[index] = rng.choice(replacements)
    return frame[:start] + b"".join(parts) + frame[at:]


def change_members(rng: random.Random, archive: bytes) -> bytes:
    """Change the metadata or weights in a tar archive with correct headers."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as source,
        tarfile.open(fileobj=out, mode="w", format=rng.choice((0, 1, 2))) as target,
    ):
        infos = source.getmembers()
        chosen = rng.choice(infos)
        for info in infos:
            content = source.extractfile(info).read()
            if info is chosen:
                content = (change_json if info.name.endswith(".json") else change_arrays)(
                    rng, content
                )
                info.name = rng.choice((info.name,) * 9 + ("../w", "weights.eqx", "x" * 99))
            info.size = len(content)
            for _ in range(rng.choice((1,) * 20 + (2,))):
                target.addfile(info, io.BytesIO(content))
    return out.getvalue()


def change_headers(rng: random.Random, archive: bytes) -> bytes:
    """Change a header of a tar archive, with its correct checksum."""
    starts = [m.start() - 257 for m in re.finditer(b"ustar", archive) if m.start() % BLOCK == 257]
    at = rng.choice(starts)
    offset, size = rng.choice(((0, 100), (124, 12), (156, 1), (157, 100), (257, 8), (345, 155)))
    header = bytearray(archive[at : at + BLOCK])
    value = flat(rng, bytes(header[offset : offset + size]))[:size]
    header[offset : offset + len(value)] = value
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return archive[:at] + bytes(header) + archive[at + BLOCK :]
