"""Which of several int8 files is the best, by what was measured of them."""

from collections.abc import Mapping

from zoo.artifacts.measured import RangedFile, Ranging

ALIKE = 1.1
"""Files whose medians are this close are equally fast: another run may turn them round."""


def choose(candidates: Mapping[Ranging, RangedFile], least: float) -> Ranging:
    """The fastest of those whose cosine is at least `least`; of equally fast ones the most exact.

    Where none is near enough, it is the most exact of all.
    """

    def exactness(way: Ranging) -> float:
        cosine = candidates[way].cosine
        return -1.0 if cosine is None else cosine

    right = [way for way in candidates if exactness(way) >= least]
    fastest = min((candidates[way].speed.p50_ms for way in right), default=0.0)
    fast = [way for way in right if candidates[way].speed.p50_ms <= ALIKE * fastest]
    return max(fast or candidates, key=exactness)
