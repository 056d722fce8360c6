"""Random networks in channels-last."""

from __future__ import annotations

import numpy as np

from tests.converter.fuse.drawing import Pencil
from tests.converter.layout.planning import Network
from tests.converter.layout.steps import STEPS, ended


def network(seed: int) -> Network:
    """A network of 4 to 13 steps with one to three outputs."""
    pencil = Pencil(np.random.default_rng(seed))
    batch = pencil.pick("batch", ("B", 2, 1))
    space = pencil.pick("space", ((9, 7), (9, 7), (6, 5), ("8*H", "8*W")))
    count = pencil.pick("inputs", (1, 1, 2))
    net = Network(pencil, [(batch, *space, 3)] * count)
    live = list(range(count))
    for _ in range(int(pencil.rng.integers(4, 14))):
        chosen = STEPS[int(pencil.rng.integers(len(STEPS)))]
        pencil.notes.append(f"| {chosen.__name__}")
        live.append(chosen(net, live[-1] if pencil.rng.random() < 0.8 else pencil.pick("of", live)))
    more = pencil.pick("more", (0, 1, 2))
    outputs = {live[-1], *(pencil.pick("output", live) for _ in range(more))}
    net.outputs = [ended(net, i) for i in sorted(outputs)]
    return net
