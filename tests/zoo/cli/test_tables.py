"""Text that commands print. The tests make the results by hand."""

from pathlib import Path

import pytest

from weights.mapping import Convention
from zoo import info
from zoo.apps.bench.bench_options import BenchOptions
from zoo.apps.bench.measure import Bench, MeasuredModel, ProductTimes
from zoo.checkpoints.convert import ConversionResult
from zoo.cli.console import warn_nonfinite
from zoo.cli.models_command import model_row
from zoo.cli.tables.bench_table import timed_rows
from zoo.cli.weights_command import conversion_blocks
from zoo.export.timing.footprint import Footprint
from zoo.registry.lookup import find_models


def test_rows_of_the_list_of_models(zoo):
    """The number of parameters has a decimal below 1,000 million, and a square has one side. The
    fixture hides files of weights on this machine."""
    rows = {entry.name: model_row(entry)[1:] for entry in find_models(())}
    assert rows["dinov3_vits16"] == ("dinov3", "21.6 M", "224", "dinov3", "facebook")
    assert rows["dinov3_vit7b16"][1] == "6716 M"
    assert rows["dinov3_vitl16plus"][-1] == "by hand"
    assert rows["vit_digits"][-1] == "this package"
    for entry in find_models(()):
        height, width = entry.preprocessing.size
        assert rows[entry.name][2] == (str(width) if height == width else f"{height}x{width}")


def test_a_file_of_weights_on_this_machine_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_WEIGHTS_DIR", str(tmp_path))
    entry = info("dinov3_vits16")
    path = tmp_path / entry.published_files.checkpoint
    path.touch()
    assert model_row(entry)[-1] == "this machine"


@pytest.mark.parametrize(("count", "ending"), [(0, None), (10, "t9"), (12, "t9 and 2 more")])
def test_at_most_ten_tensors_are_named(count, ending, capsys):
    warn_nonfinite([f"t{i}" for i in range(count)])
    printed = capsys.readouterr().err
    if ending is None:
        assert not printed
    else:
        names = ", ".join(f"t{i}" for i in range(9))
        assert printed == f"warning: NaN or infinite values in {names}, {ending}\n"


def convert_without(dropped):
    """Return the result of a conversion that dropped these leaves."""
    naming = Convention("timm", "timm")
    return ConversionResult(Path("x"), naming, "vit", ("head.b",), dropped, ("norm.w",), ())


def test_blocks_of_a_conversion():
    *others, rounded = conversion_blocks(convert_without(("a", "b", "c", "d", "e")))
    assert others == [
        "x was written: vit for timm",
        "not in the source, written as initialised: head.b",
        "not written, because the format has no name for them: a, b, c and 2 more",
    ]
    assert rounded == "rounded to bfloat16, as in the published files: norm.w"
    blocks = [*conversion_blocks(convert_without(("a", "b", "c")))]
    assert blocks[2].endswith(": a, b, c")


def measure(name, times, footprint=None):
    """Return a measured file, or the model of transformers without a footprint."""
    return MeasuredModel(name, (), times, footprint)


def test_rows_of_the_chart_of_a_benchmark():
    """Times are in milliseconds, ratios of medians, and files are relative to their folder."""
    used = Footprint(0.1, None, None)
    models = (
        measure("out/onnx/a.onnx", [0.004, 0.002, 0.003], used),
        measure("out/onnx/sub/b.onnx", [0.0045, 0.0075, 0.006], used),
        measure("transformers", [0.012]),
    )
    first, second, third = timed_rows(Bench(BenchOptions(), models, ProductTimes(None, {})))
    assert [row.name for row in (first, second, third)] == ["a.onnx", "sub/b.onnx", "transformers"]
    assert (first.fastest, first.median, first.ratio) == pytest.approx((2, 3, 1))
    assert (second.fastest, second.median, second.ratio) == pytest.approx((4.5, 6, 2))
    assert second.p95 == pytest.approx(7.35)
    assert (third.fastest, third.ratio) == pytest.approx((12, 4))
