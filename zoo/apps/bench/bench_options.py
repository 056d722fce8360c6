"""Options of a measurement. Importing this module does not import ONNX Runtime."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from zoo.common.options import FILE_SIZE, Option


@dataclass(frozen=True)
class BenchOptions:
    """Options of a measurement of ONNX files.

    - `batch`: the number of images in a batch. None means that of the files, or 1.
    - `size`: the (height, width) of images. None means that of the files or their manifests.
    - `threads`: the number of threads of each run.
    - `rounds`: the number of rounds. Each round runs every file once, in random order.
    - `against`: `torch` to measure the model of transformers too, otherwise None.
    - `clock`: a function that returns seconds. `time.thread_time` excludes the time that a run with
      one thread waits on a busy machine.
    """

    batch: Annotated[
        int | None, Option("N", "The number of images in a batch.", minimum=1, default="1")
    ] = None
    size: Annotated[
        tuple[int, int] | None,
        replace(FILE_SIZE, default="the file's or the manifest's, or 224"),
    ] = None
    threads: Annotated[int, Option("N", "The threads of each run.", minimum=1)] = 1
    rounds: Annotated[
        int,
        Option("N", "The number of rounds; each runs every file once, in random order.", minimum=1),
    ] = 20
    against: Annotated[
        Literal["torch"] | None,
        Option("torch", "Also measure the model of transformers in PyTorch, with random weights."),
    ] = None
    clock: Callable[[], float] = time.perf_counter
