"""Changes of the pickle in a PyTorch checkpoint, operation by operation."""

import pickletools
import random

from tests.files.changes import flat, number

EVIL = (
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
"""Programs within the program that ask for code, or nearly do."""

BOMBS = (
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
"""Programs that take much, at least elsewhere."""


def program(rng: random.Random, whole: bytes) -> bytes:
    """A pickle with one to three operations that are others, gone, repeated or made up."""
    places = [place for _, _, place in pickletools.genops(whole)]
    ends = [*places[1:], len(whole)]
    parts = [whole[a:b] for a, b in zip(places, ends, strict=True)]
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(parts))
        match rng.randrange(7):
            case 0:
                parts[at] = b""
            case 1:
                parts[at] *= rng.choice((2, 3, 1000))
            case 2:
                other = rng.randrange(len(parts))
                parts[at], parts[other] = parts[other], parts[at]
            case 3:
                parts[at] += rng.choice(EVIL)
            case 4:
                parts[at] += rng.choice(BOMBS)
            case 5:
                # The operation stays, and its argument is another.
                parts[at] = parts[at][:1] + number(rng) + parts[at][1:][8:]
            case _:
                code = rng.choice(pickletools.opcodes).code.encode("latin-1")
                parts[at] += code + rng.randbytes(rng.choice((0, 0, 1, 2, 4, 8)))
    changed = b"".join(parts)
    return flat(rng, changed) if rng.random() < 0.1 else changed
