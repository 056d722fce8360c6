"""Random changes of bytes, numbers, JSON and pickles."""

import copy
import json
import pickletools
import random
from typing import Any

NUMBERS = (0, 1, 2, 127, 128, 255, 256, 65535, 1 << 31, (1 << 32) - 1, (1 << 48) - 1, 1 << 48)
NUMBERS += ((1 << 63) - 1, 1 << 63, (1 << 64) - 1)

DEEP = "(deep)"
"""A placeholder for a value that is too deep, or has too many digits, for a library to write."""

VALUES: tuple[Any, ...] = (
    *(None, True, 0.5, -0.0, 1e308, float("inf"), float("nan"), "", "a" * 1000, "../w", "/etc"),
    *("\0", "\ud800", "😀", "F32", "F64", "U8", "BOOL", "w.safetensors", DEEP),
    *([], {}, [[]], [0], [-1], [1] * 8, [1] * 9, [1] * 5000, [1 << 47] * 8, [0, 1 << 60]),
    *({"": {}}, {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, -1, *NUMBERS),
)


def flat(rng: random.Random, data: bytes) -> bytes:
    """Make one to three changes of bytes, more often near the beginning and the end."""
    content = bytearray(data or b"\0")
    for _ in range(rng.randint(1, 3)):
        span = max(1, int(len(content) * rng.choice((0.02, 0.1, 1.0))))
        start = rng.randrange(span)
        start = len(content) - 1 - start if rng.random() < 0.5 else start
        piece = rng.choice((1, 2, 4, 8, 60, 512))
        match rng.randrange(6):
            case 0:
                content[start] = rng.randrange(256)
            case 1:
                content[start] ^= 1 << rng.randrange(8)
            case 2:
                del content[start : start + piece]
            case 3:
                content[start:start] = content[start : start + piece] * rng.choice((1, 2, 1000))
            case 4:
                content[start : start + 8] = draw_number(rng)
            case _:
                del content[start:]
        content = content or bytearray(1)
    return bytes(content)


def draw_number(rng: random.Random) -> bytes:
    """Draw a number as 1, 2, 4 or 8 bytes."""
    width = rng.choice((1, 2, 4, 8))
    value = rng.choice((*NUMBERS, rng.randrange(1 << 16))) % (1 << 8 * width)
    return value.to_bytes(width, rng.choice(("little", "big")))


def change_json(rng: random.Random, text: bytes) -> bytes:
    """Replace, remove, move or duplicate one to three values of a JSON document."""
    value = json.loads(text)
    for _ in range(rng.randint(1, 3)):
        holder, key = _draw_entry(rng, value)
        match rng.randrange(5):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[rng.choice(("", "a", "a" * 300, "../a", "\0", "é"))] = holder[key]
            case 2:
                other_holder, other_key = _draw_entry(rng, value)
                holder[key] = copy.deepcopy(other_holder[other_key])
            case _:
                holder[key] = copy.deepcopy(rng.choice(VALUES))
        if not value:
            break
    return _to_bytes(rng, value)


def _draw_entry(rng: random.Random, value: Any) -> tuple[Any, Any]:
    """Draw a value of a document. Return the list or dictionary that holds it, and its key."""
    while True:
        key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        inner = value[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.2:
            return value, key
        value = inner


def _to_bytes(rng: random.Random, value: Any) -> bytes:
    """Return the document as text, sometimes with a duplicate key or wrong syntax."""
    depth = rng.choice((9, 900, 100_000))
    deep = rng.choice(("[" * depth + "]" * depth, '{"a":' * depth, "9" * depth))
    text = json.dumps(value).replace(f'"{DEEP}"', deep)
    if rng.random() < 0.1:
        text = text.replace("{", '{"a": 1, "a": 2, ' if rng.random() < 0.5 else "{,", 1)
    return text.encode("utf-8", "surrogatepass")


FORBIDDEN_PROGRAMS = (
    b"cos\nmkdir\nX\x08\x00\x00\x00evidence\x85R",
    b"\x8c\x02os\x8c\x05mkdir\x93\x8c\x08evidence\x85R",
    b"(ios\nmkdir\nX\x08\x00\x00\x00evidenceo",
    b"cbuiltins\nexec\nX\x0d\x00\x00\x00import antigravity\x85R"[:-1] + b"R",
    b"ctorch.hub\nload\n)R",
    b"ccollections\nOrderedDict\n)\x81",
    b"ccopyreg\n_reconstructor\n(ccollections\nOrderedDict\nc__builtin__\nobject\nNtR",
    b"}X\x03\x00\x00\x00abcK\x01sb",
    b"\x82\x01",
)
"""Parts of pickles that call code, or nearly do."""

COSTLY_PROGRAMS = (
    b"})" + b"\x85" * 50_000 + b"Ns0",
    b"})" + b"q\x00h\x00\x86" * 30 + b"Ns0",
    b"Nr\xff\xff\xff\x7f0",
    b"(" * 20_000,
    b"\x8a\xff" + b"\x7f" * 255,
    b"X\xff\xff\xff\x7f",
    b"\x8e" + b"\xff" * 8,
    b"\x95" + b"\xff" * 8,
    b"V" + b"\\u0041" * 5000 + b"\n",
    b"L" + b"9" * 6000 + b"L\n",
)
"""Parts of pickles that take much time or memory in some readers."""


def change_pickle(rng: random.Random, program: bytes) -> bytes:
    """Change, remove, repeat or insert one to three operations of a pickle."""
    starts = [start for _, _, start in pickletools.genops(program)]
    ends = [*starts[1:], len(program)]
    parts = [program[a:b] for a, b in zip(starts, ends, strict=True)]
    for _ in range(rng.randint(1, 3)):
        index = rng.randrange(len(parts))
        match rng.randrange(7):
            case 0:
                parts[index] = b""
            case 1:
                parts[index] *= rng.choice((2, 3, 1000))
            case 2:
                other_index = rng.randrange(len(parts))
                parts[index], parts[other_index] = parts[other_index], parts[index]
            case 3:
                parts[index] += rng.choice(FORBIDDEN_PROGRAMS)
            case 4:
                parts[index] += rng.choice(COSTLY_PROGRAMS)
            case 5:
                # The operation is unchanged, and its argument is another.
                parts[index] = parts[index][:1] + draw_number(rng) + parts[index][1:][8:]
            case _:
                code = rng.choice(pickletools.opcodes).code.encode("latin-1")
                parts[index] += code + rng.randbytes(rng.choice((0, 0, 1, 2, 4, 8)))
    changed = b"".join(parts)
    return flat(rng, changed) if rng.random() < 0.1 else changed
