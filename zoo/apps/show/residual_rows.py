"""The errors of a file's outputs as a chart shows them, with what is asked of each."""

from collections.abc import Mapping

from zoo.apps.show.chart import ResidualRow
from zoo.artifacts.measured import Comparison, Verification
from zoo.artifacts.words import limit, passed, worst_words
from zoo.export.precisions import Limit
from zoo.images.pixel_values import Float32, Size


def residual_rows(
    title: str, outputs: Mapping[str, Float32], grid: Size, verification: Verification
) -> list[ResidualRow]:
    """A row for each output of a file, of which these are the absolute differences."""
    asked = Limit(verification.measure, verification.limit)
    rows = []
    for name, errors in outputs.items():
        own = [each for each in verification.comparisons if each.output == name]
        worst = f"at worst {worst_words(verification, own)}, where {limit(verification)} is asked"
        verdict = f"{passed(all(map(asked.holds, own)))}: {worst}"
        rows.append(ResidualRow(f"{title}: {name}", verdict, errors, grid, allowed(asked, own[:1])))
    return rows


def allowed(asked: Limit, own: list[Comparison]) -> float | None:
    """The largest absolute difference that is within a limit; None where that is on a cosine, or is
    of the size of numbers that are not known."""
    if asked.measure == "max_abs":
        return asked.value
    if asked.measure == "cosine" or not own or not own[0].max_abs or not own[0].max_rel:
        return None
    return asked.value * own[0].max_abs / own[0].max_rel
