"""For how long something from outside is registered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from converter.expand import registry as expansions
from converter.fuse import registry as recognisers
from converter.lower import registry as rules


@contextmanager
def extensions() -> Iterator[None]:
    """Rules, expansions and recognisers that are registered inside are forgotten at the end.

    with converter.extensions():
        converter.rule("my_primitive")(lambda b, x: b.op("Softsign", x))
        export = converter.to_onnx(fn, specs)
    """
    with rules.restored(), expansions.restored(), recognisers.restored():
        yield
