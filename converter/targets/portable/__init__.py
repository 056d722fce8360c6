"""The common subset of all known runtimes: opset 18, static sizes, and only operators that all of
them support."""

from dataclasses import replace

from converter.targets.iree import TARGET as IREE
from converter.targets.opencv import TARGET as OPENCV
from converter.targets.tract import TARGET as TRACT

TARGET = replace(
    TRACT,
    name="portable",
    oldest="",
    lacks=(*TRACT.lacks, *OPENCV.lacks, *IREE.lacks),
    opset=18,
    opsets=range(18, 19),
    static_sizes_only=True,
)
