"""int8 with a scale for each tensor or each row: `python benchmarks/scales.py [MODEL]`.

Prints times over those of float32, the least cosine to it, and how far an output of the first image
moves when others stand beside it. Seeded weights and noise; one thread, whose own time is taken.
"""

import sys
import time
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

import converter
import zoo
from benchmarks.integers import least_cosine
from zoo.bench.rounds import interleave, resting_session, run_once
from zoo.export.precision import derive

BATCHES, ROUNDS = (1, 8), 10


def main(name: str = "dinov3_vits16") -> None:
    rng = np.random.default_rng(0)
    side = zoo.info(name).preprocessing.size
    pixels = rng.standard_normal((max(BATCHES), 3, *side)).astype(np.float32)
    with TemporaryDirectory() as scratch:
        files = {each: Path(scratch, f"{each}.onnx") for each in ("float32", "tensor", "row")}
        model = zoo.from_pretrained(name, weights="random")
        zoo.to_onnx(model, files["float32"], size="dynamic", opset=23, verify=False)
        for scales in ("tensor", "row"):
            derive(files["float32"], files[scales], "int8", [pixels[:1]], scales=scales)
        live = {each: resting_session(file, 1) for each, file in files.items()}
        run = {each: partial(converter.run, session) for each, session in live.items()}
        for batch in BATCHES:
            fed = {"pixel_values": pixels[:batch]}
            times = interleave(
                {each: run_once(session, fed) for each, session in live.items()},
                ROUNDS,
                time.process_time,
            )
            exact = run["float32"]([pixels[:batch]])
            for scales in ("tensor", "row"):
                alone, got = run[scales]([pixels[:1]]), run[scales]([pixels[:batch]])
                cosine = least_cosine(got, exact)
                moved = max(abs(alone[key] - got[key][:1]).max() for key in got)
                ratio = median(times[scales]) / median(times["float32"])
                print(f"batch {batch}, {scales}: {ratio:.2f}, {cosine:.5f}, {moved:.2g}")


if __name__ == "__main__":
    main(*sys.argv[1:])
