"""`zoo bench FILE…`: how fast files are beside each other."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from zoo.cli import options
from zoo.cli.console import print_result, progress_bar

BATCH = options.value("N", "The number of images in a batch.", min=1, show_default="1")
SIZE = "the file's or the manifest's, or 224"
ROUNDS = options.value("N", "The rounds; each runs every file once, in random order.", min=1)
AGAINST = options.value("torch", "Also time transformers' model, with random weights.")


def bench(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Any .onnx files.")],
    batch: Annotated[int | None, BATCH] = None,
    size: Annotated[str | None, options.size_option(SIZE, panel=None)] = None,
    threads: Annotated[int, options.value("N", "The threads of each run.", min=1)] = 1,
    rounds: Annotated[int, ROUNDS] = 20,
    against: Annotated[Literal["torch"] | None, AGAINST] = None,
    plot: options.Plot = None,
    json: options.Json = False,
) -> None:
    """Measure the speed and memory of ONNX files beside each other.

    The files take turns, and their matrix products alone are measured as well.
    """
    from zoo.bench import measure
    from zoo.bench.inputs import BenchOptions
    from zoo.cli.tables.bench_table import bench_record, show_bench, timed_rows
    from zoo.show.chart import check_plot, draw_times, save_chart

    check_plot(plot)
    wanted = BenchOptions(batch, options.read_sides(size), threads, rounds, against == "torch")
    with progress_bar() as progress:
        found = measure.measure_files(files, wanted, progress)
    if plot is not None:
        title = f"Time of one run, threads: {threads}"
        save_chart(draw_times(title, timed_rows(found), 1e3 * found.floor.total or None), plot)
    print_result(json, found, show_bench, bench_record)
