"""Measure int8 files against float32: speed, difference, and alternatives.

python benchmarks/integers.py operators [--model dinov3_vits16] [--rounds 20] python
benchmarks/integers.py scales [--model dinov3_vits16] [--rounds 20] python benchmarks/integers.py
calibration [--model dinov3_vits16] [--rounds 20]

Weights are seeded. A cosine is the smallest one of all outputs.

`operators`: for each file the fastest run of each operator on two threads, summed up and divided by
the time of the float32 file's matrix products and convolutions. A busy machine changes this ratio
little.

`scales`: one scale for each tensor, or one for each row. The table has the time relative to
float32, the cosine on noise, and the change of the first image's outputs if the batch contains
other images. One thread; its processor time counts.

`calibration`: methods to find the ranges of activations. 512 of the digits that `vit_digits` was
trained on are written to a folder, and ranges are measured on them as `zoo export --calibrate`
does. All files then read the held-out digits. The second table has the same files of a larger
model, with ranges from photographs, in ONNX Runtime and in OpenVINO. Times are those of the fastest
run on one image, on two threads, relative to float32 in the same runtime. For digits, a run has 64
images.
"""

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime as ort
import openvino as ov
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from PIL import Image

import converter
import zoo
from benchmarks.pages import table
from weights.progress import Quiet
from zoo.data.digits.data import split_digits
from zoo.export.calibration import Calibrator, minmax_ranges, write_with_ranges
from zoo.export.precision import write_lower_precision
from zoo.export.timing.rounds import as_task, measure_interleaved, open_idle_session
from zoo.images.photograph import photographs
from zoo.images.picture_folder import read_picture_folder
from zoo.images.pixel_values import pixel_values

THREADS, PICTURES, BATCHES = 2, 512, (1, 8)
PRODUCTS = ("MatMul", "Gemm", "FusedGemm", "Conv")
OPSETS = {"": 23, ", opset 18": 18}


def least_cosine(actual: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
    """Return the smallest cosine of all outputs."""
    return min(converter.compare(actual[name], expected[name]).cosine for name in expected)


def kernel_times(profile: Path) -> dict[str, float]:
    """Return the milliseconds of each operator, the slowest first: the sum of the fastest runs of
    its nodes."""
    time_ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in json.loads(profile.read_text()):
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            time_ratios[event["args"]["op_name"], event["name"]].append(event["dur"] / 1e3)
    totals: dict[str, float] = defaultdict(float)
    for (operator, _), milliseconds in time_ratios.items():
        totals[operator] += min(milliseconds)
    return dict(sorted(totals.items(), key=lambda milliseconds: -milliseconds[1]))


def profile_files(
    files: Mapping[str, Path], rounds: int, pixels: np.ndarray, folder: Path
) -> dict[str, dict[str, float]]:
    """Return the kernel times of each file from ONNX Runtime's profile. The files run in turns."""
    sessions = {}
    for name, file in files.items():
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = THREADS, 3
        options.enable_profiling, options.profile_file_prefix = True, str(folder / "profile")
        options.add_session_config_entry("session.force_spinning_stop", "1")
        sessions[name] = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    for _ in range(rounds):
        for session in sessions.values():
            session.run(None, {"pixel_values": pixels})
    return {name: kernel_times(Path(session.end_profiling())) for name, session in sessions.items()}


class Photograph(CalibrationDataReader):
    """Data reader that returns a photograph once."""

    def __init__(self, pixels: np.ndarray):
        self.remaining = [{"pixel_values": pixels}]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.remaining.pop() if self.remaining else None


def write_variants(folder: Path, name: str, pixels: np.ndarray) -> dict[str, Path]:
    """Write all files to compare and return their paths by name. The float32 file comes first."""
    model, files = zoo.from_pretrained(name, weights="random"), {}
    for suffix, opset in OPSETS.items():
        for precision in ("float32", "int8"):
            files[precision + suffix] = folder / f"{precision}-{opset}.onnx"
        zoo.to_onnx(model, files[f"float32{suffix}"], opset=opset, verify=False)
        write_lower_precision(files[f"float32{suffix}"], files[f"int8{suffix}"], "int8", [pixels])
    files["convolutions in integers"] = folder / "convolutions.onnx"
    quantize_static(
        *(files["int8"], files["convolutions in integers"], Photograph(pixels)),
        op_types_to_quantize=["Conv"],
        activation_type=QuantType.QUInt8,
        per_channel=True,
        reduce_range=True,
    )
    return files


def print_operators(name: str, rounds: int, folder: Path) -> None:
    """Print the time of the operators of each file."""
    preprocessing = zoo.info(name).preprocessing
    pixels = pixel_values(photographs(1), preprocessing, preprocessing.size)
    noise = np.random.default_rng(0).standard_normal(pixels.shape, np.float32)
    files = write_variants(folder, name, pixels)
    time_ratios = profile_files(files, rounds, noise, folder)
    expected = converter.run(files["float32"], [pixels])
    floor = sum(time_ratios["float32"].get(kind, 0) for kind in PRODUCTS)
    print(f"products and convolutions in float32: {floor:.2f} ms")
    for file, kinds in time_ratios.items():
        cosine = least_cosine(converter.run(files[file], [pixels]), expected)
        largest = ", ".join(f"{kind} {time:.2f}" for kind, time in [*kinds.items()][:8])
        print(f"{sum(kinds.values()) / floor:.3f}  {cosine:.5f}  {file}: {largest}")


def print_scales(name: str, rounds: int, folder: Path) -> None:
    """Print the table of scales."""
    size = zoo.info(name).preprocessing.size
    pixels = np.random.default_rng(0).standard_normal((max(BATCHES), 3, *size), np.float32)
    files = {
        granularity: folder / f"{granularity}.onnx" for granularity in ("float32", "tensor", "row")
    }
    model = zoo.from_pretrained(name, weights="random")
    zoo.to_onnx(model, files["float32"], size="dynamic", opset=23, verify=False)
    for granularity in ("tensor", "row"):
        write_lower_precision(
            files["float32"], files[granularity], "int8", [pixels[:1]], scales=granularity
        )
    sessions = {granularity: open_idle_session(file, 1) for granularity, file in files.items()}
    rows = []
    for batch in BATCHES:
        tasks = {
            name: as_task(session, {"pixel_values": pixels[:batch]})
            for name, session in sessions.items()
        }
        times = measure_interleaved(tasks, rounds, time.process_time)
        outputs = {
            name: converter.run(session, [pixels[:batch]]) for name, session in sessions.items()
        }
        for granularity in ("tensor", "row"):
            single = converter.run(sessions[granularity], [pixels[:1]])
            change = max(
                abs(single[key] - value[:1]).max() for key, value in outputs[granularity].items()
            )
            ratio = median(times[granularity]) / median(times["float32"])
            cosine = least_cosine(outputs[granularity], outputs["float32"])
            rows.append([granularity, str(batch), f"{ratio:.2f}", f"{cosine:.5f}", f"{change:.2g}"])
    print(*table(["scales", "batch", "time", "cosine", "moves by"], rows), sep="\n")


def print_calibration(name: str, rounds: int, folder: Path) -> None:
    """Print the table of digits and the table of runtimes."""
    training, held_out = split_digits()
    preprocessing = zoo.info("vit_digits").preprocessing
    pictures = [*map(Image.fromarray, training.images[:PICTURES])]
    files = write_files(
        zoo.from_pretrained("vit_digits"), "vit_digits", pictures, folder / "digits"
    )
    pixels = pixel_values(
        [*map(Image.fromarray, held_out.images)], preprocessing, preprocessing.size
    )
    outputs = {variant: converter.run(file, [pixels]) for variant, file in files.items()}
    ratios_of, rows = time_ratios(files, pixels[:64], rounds), []
    for variant, actual in outputs.items():
        share = (actual["logits"].argmax(-1) == held_out.labels).mean()
        cosine, size = least_cosine(actual, outputs["float32"]), files[variant].stat().st_size
        rows.append([variant, f"{share:.2%}", f"{cosine:.5f}", f"{size:,}", ratios_of[variant][0]])
    print(*table(["activations", "held-out digits", "cosine", "bytes", "time"], rows), sep="\n")
    preprocessing, photos = zoo.info(name).preprocessing, photographs(8)
    model = zoo.from_pretrained(name, weights="random")
    files = write_files(model, name, photos, folder / "pictures")
    ratios_of = time_ratios(
        files, pixel_values(photos[:1], preprocessing, preprocessing.size), rounds
    )
    rows = [[variant, *ratios] for variant, ratios in ratios_of.items()]
    print(*table(["activations", "ONNX Runtime", "OpenVINO"], rows), sep="\n")


def write_files(model: object, name: str, pictures: Sequence[Image.Image], folder: Path):
    """Write the float32 file, the int8 files and the pictures for calibration into a folder. Return
    the paths of the files."""
    folder.mkdir()
    files = {name: folder / f"{name}.onnx" for name in ("float32", "dynamic", "minmax")}
    preprocessing, source = zoo.info(name).preprocessing, files["float32"]
    zoo.to_onnx(model, source, verify=False)
    for index, picture in enumerate(pictures):
        picture.save(folder / f"{index:04}.png")
    write_lower_precision(
        source,
        files["dynamic"],
        "int8",
        [pixel_values(photographs(1), preprocessing, preprocessing.size)],
    )
    calibrator = Calibrator(read_picture_folder(folder), preprocessing, preprocessing.size, 1)
    ranges = calibrator.measure_activations(source, Quiet())
    means = {name: measured.means for name, measured in ranges.items()}
    write_with_ranges(source, files["minmax"], minmax_ranges(ranges), means)
    return files


def time_ratios(files: Mapping[str, Path], pixels: np.ndarray, rounds: int) -> dict[str, list[str]]:
    """Return the fastest run of each file divided by that of float32, in ONNX Runtime and in
    OpenVINO."""
    core, settings = ov.Core(), {"INFERENCE_NUM_THREADS": THREADS}
    settings["INFERENCE_PRECISION_HINT"] = "f32"
    tasks = {}
    for variant, file in files.items():
        tasks[variant, 0] = as_task(open_idle_session(file, THREADS), {"pixel_values": pixels})
        request = core.compile_model(file, "CPU", settings).create_infer_request()
        tasks[variant, 1] = partial(request.infer, {0: pixels})
    fastest = {key: min(seconds) for key, seconds in measure_interleaved(tasks, rounds).items()}
    return {
        variant: [f"{fastest[variant, n] / fastest['float32', n]:.2f}" for n in (0, 1)]
        for variant in files
    }


TABLES = {"operators": print_operators, "scales": print_scales, "calibration": print_calibration}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--model", default="dinov3_vits16")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        TABLES[options.table](options.model, options.rounds, Path(folder))


if __name__ == "__main__":
    main()
