"""`zoo bench FILE…`: compare the speed and memory of ONNX files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from zoo.apps.bench.bench_options import BenchOptions
from zoo.cli.command_options import Plot, derive_options
from zoo.cli.console import CommandResult, command_progress
from zoo.common.options import argument

if TYPE_CHECKING:
    from zoo.apps.bench.measure import Bench


@derive_options(BenchOptions)
def bench(
    options: BenchOptions,
    files: Annotated[Sequence[Path], argument("FILE", "Any .onnx files.")],
    plot: Plot = None,
) -> CommandResult["Bench"]:
    """Measure the speed and memory of ONNX files and compare them.

    The files run in turn. Their matrix products alone are measured as well.
    """
    from zoo.apps.bench import measure
    from zoo.apps.show.chart import draw_times
    from zoo.apps.show.save import check_plot, save_chart
    from zoo.artifacts.measured import describe_load, is_busy
    from zoo.cli.tables.bench_table import bench_blocks, bench_record, timed_rows

    check_plot(plot)
    with command_progress() as progress:
        results = measure.measure_files(files, options, progress)
    if plot is not None:
        title = f"Time of one run, threads: {options.threads}"
        products = 1e3 * results.product_times.total or None
        busy = describe_load(results.busy_cores) if is_busy(results.busy_cores) else ""
        save_chart(draw_times(title, timed_rows(results), products, busy), plot)
    return CommandResult(results, bench_blocks, bench_record)
