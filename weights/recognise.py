"""Whose names a checkpoint uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weights.distributions import Shape
from weights.errors import NotACheckpoint
from weights.mapping import Naming, mismatches, plan
from weights.tensors import LazyTensor


def fits(naming: Naming, file: Mapping[str, LazyTensor], shapes: Mapping[str, Shape]) -> bool:
    """Whether a file has just what a model with these leaves needs, in these names."""
    return not mismatches(naming, plan(naming.rules, shapes), naming.normalise(file))


def nearest(namings: Iterable[Naming], file: Mapping[str, LazyTensor]) -> Naming:
    """The naming that knows most of a file's keys; the first of equals.

    **Raises** `NotACheckpoint` if none knows even half of them.
    """
    known = {naming: sum(naming.knows(key) for key in file) for naming in namings}
    best = max(known, key=lambda naming: known[naming])
    if not file or 2 * known[best] < len(file):
        shown = ", ".join(ascii(key)[1:-1][:60] for key in list(file)[:3]) or "none at all"
        raise NotACheckpoint(
            f"the file's {len(file)} tensors ({shown} …) are not those of a model in the zoo: "
            "give a checkpoint of one."
        )
    return best
