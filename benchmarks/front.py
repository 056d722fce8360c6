"""The preprocessing that `--input uint8` puts into a file, beside Pillow.

    python benchmarks/front.py [MODEL ...] [--threads 2] [--rounds 15]

The front alone in ONNX Runtime, and what `zoo.preprocess` does with Pillow, for photographs of
three sizes. All run once in every round; the fastest run of each counts, and `difference` is the
largest of the two results.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import zoo
from zoo.bench.rounds import interleave, resting_session, run_once
from zoo.images.in_graph import front
from zoo.images.photograph import photograph
from zoo.images.pixel_values import pixel_values

MODELS = ("dinov3_vits16", "dinov2_vits14")
"""One that resizes floating-point values, one that resizes 8-bit ones."""

SIZES = ((336, 336), (640, 480), (1920, 1080))
"""(width, height)."""


def compare(model: str, file: Path, threads: int, rounds: int) -> None:
    """Print a row for every size of photograph."""
    how = zoo.info(model).preprocessing
    front(how, how.size, 23).save(file)
    live = resting_session(file, threads)
    for size in SIZES:
        image = photograph().resize(size)
        fed = {"image": np.asarray(image)[None]}
        tasks = {
            "file": run_once(live, fed),
            "Pillow": lambda image=image: pixel_values([image], how, how.size),
        }
        times = {name: min(found) for name, found in interleave(tasks, rounds).items()}
        difference = abs(live.run(None, fed)[0] - tasks["Pillow"]()).max()
        print(
            f"{model:15}{size[0]:6} x {size[1]:<6}{1e3 * times['file']:8.2f} ms"
            f"{1e3 * times['Pillow']:8.2f} ms{times['file'] / times['Pillow']:8.2f}"
            f"{difference:10.1e}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    print(f"{'model':15}{'photograph':>14}{'file':>11}{'Pillow':>11}{'ratio':>8}{'difference':>12}")
    with tempfile.TemporaryDirectory() as folder:
        for model in asked.models:
            compare(model, Path(folder) / "front.onnx", asked.threads, asked.rounds)


if __name__ == "__main__":
    main()
