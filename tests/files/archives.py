"""Changes of zip and tar archives, of LZ4 frames, and of runs of arrays."""

import io
import random
import re
import tarfile
import zipfile
from collections.abc import Callable

import lz4.frame

from tests.files.changes import flat, number, table

Change = Callable[[random.Random, bytes], bytes]
BLOCK = tarfile.BLOCKSIZE

SHAPES = ("", "1", "2,", "0, 4", "1, " * 7 + "1", "1, " * 8 + "1", "99999999999999,", "-1,", "1L,")
SHAPES += ("281474976710655, " * 8, "1, " * 4000, "65536, 65536, 65536, 65536")
TYPES = ("<f4", "<f2", "|V2", "<V2", "<f8", "|O", ">f4", "<U9999", "<i8", "|b1", "<f0")
TYPES += ("[('a', 1)]",)


def arrays(rng: random.Random, data: bytes) -> bytes:
    """A run of `.npy` records with a header that says something else."""
    if rng.random() < 0.3:
        return flat(rng, data)
    header = rng.choice(list(re.finditer(rb"\{'descr'[^\n]*\n", data)))
    text = header[0].decode("latin-1")
    other = rng.choice(("True", "None", "0", "__import__('os')"))
    texts = (
        re.sub(r"\(.*?\)", f"({rng.choice(SHAPES)})", text),
        re.sub(r"'[<>|=]\w+'", f"'{rng.choice(TYPES)}'", text),
        text.replace("False", other),
        flat(rng, header[0]).decode("latin-1"),
    )
    changed = rng.choice(texts).encode("latin-1")
    start, end = header.span()
    # The length before it fits, or not.
    size = min(len(changed), 65535).to_bytes(2, "little") if rng.random() < 0.9 else number(rng)
    return data[: start - 2] + size + changed + data[end:]


def zipped(rng: random.Random, data: bytes, change: Change, aim: str) -> bytes:
    """A zip archive with another member, or with tables that lie; `aim` is the favourite."""
    if rng.random() < 0.15:
        return flat(rng, data)
    if rng.random() < 0.35:
        heads = [m.start() for m in re.finditer(rb"PK(\x01\x02|\x03\x04|\x05\x06|\x06.)", data)]
        at, value = rng.choice(heads) + rng.randrange(4, 46), number(rng)
        return data[:at] + value + data[at + len(value) :]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    aimed = [name for name in members if name.endswith(aim)]
    name = rng.choice(aimed if rng.random() < 0.85 else list(members))
    members[name] = (change if name in aimed else flat)(rng, members[name])
    if rng.random() < 0.1:
        members[rng.choice(("../a", "", "a/data.pkl", "w/data/0/", "x" * 70))] = members.pop(name)
    out, method = io.BytesIO(), rng.choice((zipfile.ZIP_STORED,) * 4 + (zipfile.ZIP_DEFLATED,))
    with zipfile.ZipFile(out, "w", method) as archive:
        for key, content in members.items():
            archive.writestr(zipfile.ZipInfo(key), content, archive.compression)
    return out.getvalue()


def compressed(rng: random.Random, data: bytes) -> bytes:
    """An Equimo archive with something changed in a member, a header, or the frame."""
    change = rng.choice((flat, blocks, members, headers))
    if change in (flat, blocks):
        return change(rng, data)
    return lz4.frame.compress(
        change(rng, lz4.frame.decompress(data)),
        block_size=rng.choice((0, 4, 5, 6, 7)),
        block_linked=rng.random() < 0.5,
        content_checksum=rng.random() < 0.3,
        block_checksum=rng.random() < 0.3,
        store_size=rng.random() < 0.5,
    )


def blocks(rng: random.Random, frame: bytes) -> bytes:
    """A frame whose blocks are cut, repeated, empty or of another length."""
    at = start = 7 + 8 * (frame[4] >> 3 & 1)
    parts = []
    while size := int.from_bytes(frame[at : at + 4], "little") & 0x7FFFFFFF:
        size += 4 + 4 * (frame[4] >> 4 & 1)
        parts.append(frame[at : at + size])
        at += size
    chosen = rng.randrange(len(parts))
    block = parts[chosen]
    others = (
        block * rng.choice((0, 2, 10)),
        number(rng).ljust(4, b"\0")[:4] + block[4:],
        b"\x01\x00\x00\x00\x00" * rng.choice((1, 20_000)) + block,
        block[:4] + flat(rng, block[4:]),
    )
    parts[chosen] = rng.choice(others)
    return frame[:start] + b"".join(parts) + frame[at:]


def members(rng: random.Random, whole: bytes) -> bytes:
    """A tar archive whose metadata or weights are changed, and its headers true."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(whole)) as source,
        tarfile.open(fileobj=out, mode="w", format=rng.choice((0, 1, 2))) as target,
    ):
        infos = source.getmembers()
        chosen = rng.choice(infos)
        for info in infos:
            content = source.extractfile(info).read()
            if info is chosen:
                content = (table if info.name.endswith(".json") else arrays)(rng, content)
                info.name = rng.choice((info.name,) * 9 + ("../w", "weights.eqx", "x" * 99))
            info.size = len(content)
            for _ in range(rng.choice((1,) * 20 + (2,))):
                target.addfile(info, io.BytesIO(content))
    return out.getvalue()


def headers(rng: random.Random, whole: bytes) -> bytes:
    """A tar archive with one header that lies, and the checksum that belongs to it."""
    found = [m.start() - 257 for m in re.finditer(b"ustar", whole) if m.start() % BLOCK == 257]
    at = rng.choice(found)
    place, size = rng.choice(((0, 100), (124, 12), (156, 1), (157, 100), (257, 8), (345, 155)))
    header = bytearray(whole[at : at + BLOCK])
    value = flat(rng, bytes(header[place : place + size]))[:size]
    header[place : place + len(value)] = value
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return whole[:at] + bytes(header) + whole[at + BLOCK :]
