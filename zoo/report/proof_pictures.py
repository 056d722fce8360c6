"""The pictures of a report: what a model sees in a photograph, and the errors of its files."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from weights import bind
from weights.progress import Progress
from zoo.apps.show.chart import ResidualRow, draw_residuals
from zoo.apps.show.feature_figure import draw_features
from zoo.apps.show.features import compute_model_features
from zoo.apps.show.save import save_chart
from zoo.architectures.builder import abstract
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import architecture_of
from zoo.checkpoints.load import Loaded
from zoo.images.photograph import photographs
from zoo.report.content import ERROR_PICTURE, FEATURES


def draw_pictures(
    entry: ModelInfo,
    loaded: Loaded,
    rows: Sequence[ResidualRow],
    folder: Path,
    progress: Progress,
) -> tuple[str, ...]:
    """Write the pictures of a model if matplotlib is installed; return their names."""
    if find_spec("matplotlib") is None:
        progress.note("nothing is drawn, for matplotlib is not installed: pip install matplotlib")
        return ()
    drawn = []
    if architecture_of(loaded.config).gives_features:
        progress.stage(f"{entry.name}: drawing features")
        facts = {"name": entry.name, "preprocessing": entry.preprocessing}
        model = bind(abstract(loaded.config, **facts), loaded.weights.arrays)
        drawn.append(f"{entry.name}{FEATURES}")
        features = compute_model_features(model, photographs(1), None)
        save_chart(draw_features(features), folder / drawn[-1])
    if rows:
        drawn.append(f"{entry.name}{ERROR_PICTURE}")
        save_chart(draw_residuals(rows), folder / drawn[-1])
    return tuple(drawn)
