"""Describe the contents of a manifest in words, for model cards and for the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.architectures.entry import ModelInfo
    from zoo.artifacts.measured import Calibration, Comparison, Verification
    from zoo.artifacts.schema import Manifest, StatedWeights, Variant


def render_markdown(template: str, **values: object) -> str:
    """Return a Markdown page from a template in `zoo/data`.

    `template` is the name of the file, `values` are the variables of the template. **Raises** an
    error of jinja2 if the template uses a variable that `values` lacks.
    """
    # jinja2 is imported only where a card is written.
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    data = files("zoo") / "data"
    environment = Environment(
        loader=FunctionLoader(lambda name: (data / name).read_text(encoding="utf-8")),
        autoescape=False,  # Markdown is not HTML
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["quoted"] = json.dumps
    return environment.get_template(template).render(values)


RANDOM_WEIGHTS = "random (seed {seed}): the shapes are real, the features mean nothing"


def passed_or_failed(passed: bool) -> str:
    """Return `passed` or `FAILED`."""
    return "passed" if passed else "FAILED"


def describe_worst_error(verification: Verification, comparisons: Sequence[Comparison]) -> str:
    """Return the worst error of some comparisons in words, such as `cosine 0.999876` or `3.1e-06`.

    The measure is that of the verification. Return `no number` if there are no comparisons or if
    one of them has no finite value.
    """
    from zoo.artifacts import measured

    error = measured.find_worst_error(comparisons, verification.measure)
    if error is None:
        return "no number"
    return f"cosine {error:.6f}" if verification.measure == "cosine" else f"{error:.1e}"


def describe_variant_error(variant: Variant) -> str:
    """Return the worst error of a variant in words, or `not verified`."""
    verification = variant.verification
    return (
        describe_worst_error(verification, verification.comparisons)
        if verification
        else "not verified"
    )


def describe_limit(verification: Verification) -> str:
    """Return the limit of a verification in words, such as `≤ 1e-04` or `cosine ≥ 0.999`.

    Some numbers of an output may agree only with what JAX returns for inputs that are changed by
    rounding errors. A remark then states the largest share of such numbers in an output. There is
    no remark for a cosine.
    """
    if verification.measure == "cosine":
        return f"cosine ≥ {verification.limit}"
    share = max((comparison.excused for comparison in verification.comparisons), default=0)
    remark = f"; {share:.1%} of an output as for inputs moved by rounding" if share else ""
    return f"≤ {verification.limit:.0e}{remark}"


def describe_levels(verification: Verification) -> str:
    """Return the number of ONNX Runtime's optimization levels at which a file was run, in words,
    such as `run at 4 levels of optimisation`.

    If the file failed, the levels below `all` at which an output had its largest error are added:
    `, worst at 'basic', 'disabled'`.
    """
    count = len(verification.levels)
    lower = sorted({comparison.level for comparison in verification.comparisons} - {"all"})
    failed = (
        f", worst at {', '.join(map(repr, lower))}" if lower and not verification.passed else ""
    )
    return f"run at {count} level{'s' * (count > 1)} of optimisation{failed}"


def describe_calibration(calibration: Calibration) -> str:
    """Return how the ranges of an int8 file's activations were chosen, as one line of text.

    The line has the chosen method, the numbers of pictures, and the cosine and speed of each method
    that was tried: `int8: minmax, by 64 pictures, measured on 16 others (dynamic cosine 0.991000, x
    1.52; minmax cosine 0.998000, x 1.80)`. A speed that was not measured is left out.
    """
    measured = (
        f"{name} cosine "
        f"{'no number' if candidate.cosine is None else format(candidate.cosine, '.6f')}"
        f"{'' if candidate.speed.ratio is None else f', x {candidate.speed.ratio:.2f}'}"
        for name, candidate in calibration.candidates.items()
    )
    pictures = f"{calibration.pictures} pictures, measured on {calibration.held_out} others"
    return f"int8: {calibration.method}, by {pictures} ({'; '.join(measured)})"


def describe_weights(weights: StatedWeights) -> str:
    """Return the origin of the weights in words: a seed, or a checkpoint's name and digest.

    For a checkpoint, the text also says whether it is the published file, if that is known, and
    which models with another licence it fits.
    """
    if weights.seed is not None:
        return RANDOM_WEIGHTS.format(seed=weights.seed)
    verdicts = {True: ", the published file", False: ", not the published file", None: ""}
    published = verdicts[weights.is_published_file]
    if weights.is_embedded_file:
        published = ", trained, from this package"
    digest = f", sha256 {weights.sha256[:8]}…" if weights.sha256 else ""
    return f"{weights.name or weights.kind}{digest}{published}{describe_licence_doubt(weights)}"


def find_base_model(manifest: Manifest, entry: ModelInfo) -> str:
    """Return the repository on the hub whose weights a manifest's files contain, as `owner/name`.

    It is the repository that the manifest states, unless that is a mirror. Otherwise it is the
    publisher's repository in `entry`, which is empty for weights in this package. Return an empty
    string for random weights. Return it also if the manifest states no repository but a mirror, and
    the network is custom or the checkpoint is not the published file.
    """
    weights = manifest.weights
    if weights.kind == "random":
        return ""
    mirrors = {file.repository for file in entry.mirrors}
    if weights.repository and weights.repository not in mirrors:
        return weights.repository
    changed = weights.is_published_file is not None and not weights.is_published_file
    is_custom = manifest.network is not None or changed
    return "" if is_custom else entry.repository


def describe_licence_doubt(weights: StatedWeights) -> str:
    """Return the remark that a checkpoint also fits models with another licence.

    The licence then depends on which model the user named. Return an empty string if it fits no
    such model.
    """
    other_models = " or ".join(weights.also_fits or ())
    remark = (
        f"; it fits {other_models} too, which has other terms, and nothing in it says which it is"
    )
    return remark if other_models else ""


def format_megabytes(manifest: Manifest, variant: Variant) -> str:
    """Return the size of a variant's files in megabytes, with one decimal."""
    return f"{sum(manifest.files_by_name[name].bytes for name in variant.files) / 1e6:.1f}"


def variant_rows(manifest: Manifest) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield a table row for every variant: name, megabytes, nodes, worst error, relative speed.

    The speed is empty if it was not measured.
    """
    speeds = manifest.speeds.variants if manifest.speeds else {}
    for name, variant in manifest.variants.items():
        ratio = speeds[name].ratio if name in speeds else None
        speed = "" if ratio is None else f"x {ratio:.2f}"
        yield (
            name,
            format_megabytes(manifest, variant),
            str(variant.nodes),
            describe_variant_error(variant),
            speed,
        )
