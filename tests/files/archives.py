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
    found = list(re.finditer(rb"\{'descr'[^\n]*\n", data))
    header = rng.choice(found)
    text = header[0].decode()
    other = rng.choice(("True", "None", "0", "__import__('os')"))
    text = rng.choice(
        (
            re.sub(r"\(.*?\)", f"({rng.choice(SHAPES)})", text),
            re.sub(r"'[<>|=]\w+'", f"'{rng.choice(TYPES)}'", text),
            text.replace("False", other),
            flat(rng, text.encode()).decode("latin-1"),
        )
    )
    changed = text.encode("latin-1")
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
        at = rng.choice(heads) + rng.randrange(4, 46)
        value = number(rng)
        return data[:at] + value + data[at + len(value) :]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    aimed = [name for name in members if name.endswith(aim)]
    name = rng.choice(aimed if rng.random() < 0.85 else list(members))
    members[name] = (change if name in aimed else flat)(rng, members[name])
    if rng.random() < 0.1:
        members[rng.choice(("../a", "", "a/data.pkl", "w/data/0/", "x" * 70))] = members.pop(name)
    methods = (zipfile.ZIP_STORED,) * 4 + (zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", rng.choice(methods)) as archive:
        for key, content in members.items():
            archive.writestr(zipfile.ZipInfo(key), content, archive.compression)
    return out.getvalue()


def compressed(rng: random.Random, data: bytes) -> bytes:
    """An Equimo archive with something changed in a member, between them, or in the frame."""
    kind = rng.random()
    if kind < 0.15:
        return flat(rng, data)
    if kind < 0.3:
        return blocks(rng, data)
    whole = lz4.frame.decompress(data)
    changed = members(rng, whole) if kind < 0.65 else headers(rng, whole)
    return lz4.frame.compress(
        changed,
        block_size=rng.choice((0, 4, 5, 6, 7)),
        block_linked=rng.random() < 0.5,
        content_checksum=rng.random() < 0.3,
        block_checksum=rng.random() < 0.3,
        store_size=rng.random() < 0.5,
    )


def blocks(rng: random.Random, frame: bytes) -> bytes:
    """A frame whose blocks are cut, repeated, empty or of another length."""
    start, parts = 7 + 8 * (frame[4] >> 3 & 1), []
    at = start
    while size := int.from_bytes(frame[at : at + 4], "little") & 0x7FFFFFFF:
        size += 4 + 4 * (frame[4] >> 4 & 1)
        parts.append(frame[at : at + size])
        at += size
    chosen = rng.randrange(len(parts))
    match rng.randrange(4):
        case 0:
            parts[chosen] *= rng.choice((0, 2, 10))
        case 1:
            value = number(rng).ljust(4, b"\0")[:4]
            parts[chosen] = value + parts[chosen][4:]
        case 2:
            empty = rng.choice((b"\x01\x00\x00\x00\x00", b"\x01\x00\x00\x80a", b"\0\0\0\0"))
            parts.insert(chosen, empty * rng.choice((1, 20_000)))
        case _:
            parts[chosen] = parts[chosen][:4] + flat(rng, parts[chosen][4:])
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
                change = table if info.name.endswith(".json") else arrays
                content = change(rng, content)
                info.name = rng.choice((info.name,) * 9 + ("../w", "weights.eqx", "x" * 99))
            info.size = len(content)
            for _ in range(rng.choice((1,) * 20 + (2,))):
                target.addfile(info, io.BytesIO(content))
    return out.getvalue()


FIELDS = ((0, 100), (100, 8), (124, 12), (136, 12), (156, 1), (157, 100), (257, 8), (345, 155))
"""Where the fields of a tar header are: name, mode, size, time, type, link, magic, prefix."""

SIZES = (b"77777777777\0", b"\x80" + b"\xff" * 11, b"\xff" * 12, b"00000000000\0", b"-0000000001\0")
SIZES += (b"\xff" * 10 + b"\x04\x00", b"            ", b"0x10\0\0\0\0\0\0\0\0", b"\0" * 12)
TYPES_OF_MEMBERS = b"0125xgLKS\0"
EXTENDED = (b"19 size=99999999999\n", b"20 path=weights.eqx\n", b"9" * 5000, b"30 size=-1\n", b"")


def headers(rng: random.Random, whole: bytes) -> bytes:
    """A tar archive whose blocks are moved, or headers lie with a checksum that is right."""
    pieces = [whole[at : at + BLOCK] for at in range(0, len(whole), BLOCK)]
    found = [n for n, piece in enumerate(pieces) if piece[257:262] == b"ustar"]
    at = rng.choice(found)
    match rng.randrange(6):
        case 0:
            pieces.insert(rng.randrange(len(pieces)), pieces[rng.randrange(len(pieces))])
        case 1:
            del pieces[rng.randrange(len(pieces)) :][: rng.choice((1, 2, 10))]
        case 2:
            body = rng.choice(EXTENDED)
            pieces.insert(at, body + bytes(-len(body) % BLOCK))
            pieces.insert(at, _field(pieces[at + 1], 156, rng.choice((b"x", b"g", b"L"))))
            size = rng.choice((b"%011o\0" % len(body), *SIZES))
            pieces[at] = _field(pieces[at], 124, size)
        case 3:
            pieces[at] = _field(pieces[at], 124, rng.choice(SIZES))
        case 4:
            kind = rng.choice(TYPES_OF_MEMBERS)
            pieces[at] = _field(pieces[at], 156, bytes([kind]))
        case _:
            place, size = rng.choice(FIELDS)
            pieces[at] = _field(pieces[at], place, flat(rng, pieces[at][place : place + size]))
    return b"".join(pieces)


def _field(header: bytes, place: int, value: bytes) -> bytes:
    """The header with other bytes at a place, and the checksum that belongs to it."""
    changed = bytearray((header[:place] + value + header[place + len(value) :])[:BLOCK])
    changed[148:156] = b" " * 8
    changed[148:156] = b"%06o\0 " % sum(changed)
    return bytes(changed)
