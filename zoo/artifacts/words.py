"""Contents of a manifest in words, for model cards and for the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, FunctionLoader, StrictUndefined

if TYPE_CHECKING:
    from zoo.architectures.entry import ModelInfo
    from zoo.artifacts.measured import Calibration, Comparison, Verification
    from zoo.artifacts.schema import Manifest, StatedWeights, Variant


def markdown(template: str, **values: object) -> str:
    """Return a page. **Raises** an error for a name of the template that `values` lack."""
    data = files("zoo") / "data"
    environment = Environment(
        loader=FunctionLoader(lambda name: (data / name).read_text(encoding="utf-8")),
        autoescape=False,  # Markdown is no HTML
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["quoted"] = json.dumps
    return environment.get_template(template).render(values)


NOT_TRAINED = "random (seed {seed}): the shapes are real, the features mean nothing"


def passed(right: bool) -> str:
    """How a check went."""
    return "passed" if right else "FAILED"


def worst_words(verification: Verification, comparisons: Sequence[Comparison]) -> str:
    """The worst of some comparisons, in the measure that counts."""
    from zoo.artifacts import measured

    error = measured.worst(comparisons, verification.measure)
    if error is None:
        return "no number"
    return f"cosine {error:.6f}" if verification.measure == "cosine" else f"{error:.1e}"


def worst_of(variant: Variant) -> str:
    """The worst of all comparisons."""
    verification = variant.verification
    return worst_words(verification, verification.comparisons) if verification else "not verified"


def limit(verification: Verification) -> str:
    """Limit that was asked of a file, and how much of an output is right for moved inputs alone."""
    if verification.measure == "cosine":
        return f"cosine ≥ {verification.limit}"
    excused = max((each.excused for each in verification.comparisons), default=0)
    but = f"; {excused:.1%} of an output as for inputs moved by rounding" if excused else ""
    return f"≤ {verification.limit:.0e}{but}"


def tried_levels(verification: Verification) -> str:
    """At how many levels of ONNX Runtime's optimiser a file was run, and where it was worst."""
    count = len(verification.levels)
    lower = sorted({each.level for each in verification.comparisons} - {"all"})
    worst = f", worst at {', '.join(map(repr, lower))}" if lower and not verification.passed else ""
    return f"run at {count} level{'s' * (count > 1)} of optimisation{worst}"


def calibration_words(calibration: Calibration) -> str:
    """Words about what was chosen of which int8 files."""
    measured = (
        f"{name} cosine {'no number' if each.cosine is None else format(each.cosine, '.6f')}, "
        f"x {each.speed.ratio:.2f}"
        for name, each in calibration.candidates.items()
    )
    pictures = f"{calibration.pictures} pictures, measured on {calibration.held_out} others"
    return f"int8: {calibration.method}, by {pictures} ({'; '.join(measured)})"


def origin(weights: StatedWeights) -> str:
    """Where the weights come from."""
    if weights.seed is not None:
        return NOT_TRAINED.format(seed=weights.seed)
    verdicts = {True: ", the published file", False: ", not the published file", None: ""}
    published = verdicts[weights.is_published_file]
    if weights.is_embedded_file:
        published = ", trained, from this package"
    digest = f", sha256 {weights.sha256[:8]}…" if weights.sha256 else ""
    return f"{weights.name or weights.kind}{digest}{published}{doubt(weights)}"


def base_model(manifest: Manifest, entry: ModelInfo) -> str:
    """The repository on the hub whose weights these are; nothing for those that are random, those
    of this package, and those of a file that nobody published."""
    weights = manifest.weights
    if weights.kind == "random":
        return ""
    mirrors = {file.repository for file in entry.mirrors}
    if weights.repository and weights.repository not in mirrors:
        return weights.repository
    changed = weights.is_published_file is not None and not weights.is_published_file
    own = manifest.network is not None or changed
    return "" if own else entry.repository


def doubt(weights: StatedWeights) -> str:
    """Remark that the licence is known only from who named the file, if so."""
    others = " or ".join(weights.also_fits or ())
    remark = f"; it fits {others} too, which has other terms, and nothing in it says which it is"
    return remark if others else ""


def megabytes(manifest: Manifest, variant: Variant) -> str:
    """Megabytes of a variant's files."""
    return f"{sum(manifest.listed[name].bytes for name in variant.files) / 1e6:.1f}"


def build_rows(manifest: Manifest) -> Iterator[tuple[str, str, str, str, str]]:
    """Row of every variant in a folder: name, megabytes, nodes, worst difference, speed."""
    speeds = manifest.speeds.variants if manifest.speeds else {}
    for name, variant in manifest.variants.items():
        ratio = speeds[name].ratio if name in speeds else None
        speed = "" if ratio is None else f"x {ratio:.2f}"
        yield name, megabytes(manifest, variant), str(variant.nodes), worst_of(variant), speed
