"""What int8 costs in accuracy and how long it takes, by how activations are ranged.

    python benchmarks/calibration.py [--pictures 512] [--rounds 20] [--model dinov3_vits16]

First table: some of the digits that `vit_digits` was trained on are written to a folder as
pictures, and ranges are measured on them as `zoo export --calibrate` does. All files then read the
digits that were held out from training. The cosine is the least of all outputs, on all of these.

Second table: the same files of a larger model with seeded weights, ranged on photographs, in ONNX
Runtime and in OpenVINO. Times are the fastest run on one image, on two threads, over that of the
same runtime in float32, in interleaved rounds; of the digits, 64 at once.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import jax
import numpy as np
import openvino as ov
from PIL import Image

import converter
import zoo
from benchmarks.integers import least_cosine
from weights.progress import Quiet
from zoo.bench.rounds import interleave, resting_session, run_once
from zoo.digits.data import split_digits
from zoo.export.calibrate.candidates import Calibrator
from zoo.export.calibrate.ranges import widest, write_fixed
from zoo.export.precision import derive
from zoo.images.photograph import photographs
from zoo.images.picture_folder import read_picture_folder
from zoo.images.pixel_values import pixel_values

THREADS = 2


def files_of(model: object, name: str, pictures: Sequence[Image.Image], folder: Path):
    """The float32 file, and those in int8."""
    ways = ("float32", "dynamic", "minmax")
    files = {way: folder / f"{name}-{way}.onnx" for way in ways}
    zoo.to_onnx(model, files["float32"], verify=False)
    how, source = zoo.info(name).preprocessing, files["float32"]
    place = folder / f"{name} pictures"
    place.mkdir()
    for index, picture in enumerate(pictures):
        picture.save(place / f"{index:04}.png")
    derive(source, files["dynamic"], "int8", [pixel_values(photographs(1), how, how.size)])
    calibrator = Calibrator(read_picture_folder(place), how, how.size, 1)
    seen = calibrator.ranges(source, Quiet())
    means = {name: each.means for name, each in seen.items()}
    write_fixed(source, files["minmax"], widest(seen), means)
    return files


def times(files: Mapping[str, Path], pixels: np.ndarray, rounds: int):
    """Seconds of the fastest run of every file, in ONNX Runtime and in OpenVINO."""
    core, settings = ov.Core(), {"INFERENCE_NUM_THREADS": THREADS}
    settings["INFERENCE_PRECISION_HINT"] = "f32"
    tasks = {}
    for way, file in files.items():
        live = resting_session(file, THREADS)
        tasks[way, "ONNX Runtime"] = run_once(live, {"pixel_values": pixels})
        request = core.compile_model(file, "CPU", settings).create_infer_request()
        tasks[way, "OpenVINO"] = partial(request.infer, {0: pixels})
    return {key: min(found) for key, found in interleave(tasks, rounds).items()}


def accuracy(pictures: int, rounds: int, folder: Path) -> None:
    """Print the table of the digits."""
    seen, apart = split_digits()
    how = zoo.info("vit_digits").preprocessing
    shown = [*map(Image.fromarray, seen.images[:pictures])]
    files = files_of(zoo.from_pretrained("vit_digits"), "vit_digits", shown, folder)
    pixels = pixel_values([*map(Image.fromarray, apart.images)], how, how.size)
    found = {way: converter.run(file, [pixels]) for way, file in files.items()}
    taken, wanted = times(files, pixels[:64], rounds), found["float32"]
    print("| activations | held-out digits | cosine | bytes | time |\n|---|---:|---:|---:|---:|")
    for way, got in found.items():
        right = (got["logits"].argmax(-1) == apart.labels).mean()
        ratio = taken[way, "ONNX Runtime"] / taken["float32", "ONNX Runtime"]
        size = files[way].stat().st_size
        print(f"| {way} | {right:.2%} | {least_cosine(got, wanted):.5f} | {size:,} | {ratio:.2f} |")


def speed(model: str, rounds: int, folder: Path) -> None:
    """Print the table of runtimes."""
    how, several = zoo.info(model).preprocessing, photographs(8)
    files = files_of(zoo.create(model, key=jax.random.key(0)), model, several, folder)
    taken = times(files, pixel_values(several[:1], how, how.size), rounds)
    print("\n| activations | ONNX Runtime | OpenVINO |\n|---|---:|---:|")
    for way in files:
        ratios = (taken[way, it] / taken["float32", it] for it in ("ONNX Runtime", "OpenVINO"))
        print(f"| {way} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--model", default="dinov3_vits16")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        accuracy(asked.pictures, asked.rounds, Path(name))
        speed(asked.model, asked.rounds, Path(name))


if __name__ == "__main__":
    main()
