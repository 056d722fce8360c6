"""int8 files beside float32: how fast they are, how far apart, and what else they could be.

    python benchmarks/integers.py operators [--model dinov3_vits16] [--rounds 20]
    python benchmarks/integers.py scales [--model dinov3_vits16] [--rounds 20]
    python benchmarks/integers.py calibration [--model dinov3_vits16] [--rounds 20]

Weights are seeded. Cosines are the least of all outputs.

`operators`: the sum of each operator's fastest run on two threads, over that of the float32 file's
matrix products and convolutions, so that a busy machine changes little.

`scales`: one for each tensor or each row. Times over those of float32, the cosine on noise, and how
far an output of the first image moves when others stand beside it; one thread, whose own time is
taken.

`calibration`: by how activations are ranged. 512 of the digits that `vit_digits` was trained on are
written to a folder as pictures, and ranges are measured on them as `zoo export --calibrate` does.
All files then read the digits that were held out from training. The second table has the same files
of a larger model, ranged on photographs, in ONNX Runtime and in OpenVINO. Times are the fastest run
on one image, on two threads, over that of the same runtime in float32; of the digits, 64 at once.
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
from zoo.export.calibration import Calibrator, full_ranges, write_with_ranges
from zoo.export.precision import derive
from zoo.export.timing.rounds import as_task, measure_interleaved, resting_session
from zoo.images.photograph import photographs
from zoo.images.picture_folder import read_picture_folder
from zoo.images.pixel_values import pixel_values

THREADS, PICTURES, BATCHES = 2, 512, (1, 8)
PRODUCTS = ("MatMul", "Gemm", "FusedGemm", "Conv")
OPSETS = {"": 23, ", opset 18": 18}


def least_cosine(got: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> float:
    """Of all outputs."""
    return min(converter.compare(got[name], wanted[name]).cosine for name in wanted)


def kernels(profile: Path) -> dict[str, float]:
    """The sum of the fastest milliseconds of each node, by operator; the slowest first."""
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in json.loads(profile.read_text()):
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            times[event["args"]["op_name"], event["name"]].append(event["dur"] / 1e3)
    found: dict[str, float] = defaultdict(float)
    for (operator, _), each in times.items():
        found[operator] += min(each)
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def profiled(
    files: Mapping[str, Path], rounds: int, pixels: np.ndarray, folder: Path
) -> dict[str, dict[str, float]]:
    """The time of each operator's kernels, as ONNX Runtime's profile has it; files take turns."""
    live = {}
    for name, file in files.items():
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = THREADS, 3
        options.enable_profiling, options.profile_file_prefix = True, str(folder / "profile")
        options.add_session_config_entry("session.force_spinning_stop", "1")
        live[name] = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    for _ in range(rounds):
        for each in live.values():
            each.run(None, {"pixel_values": pixels})
    return {name: kernels(Path(each.end_profiling())) for name, each in live.items()}


class Photograph(CalibrationDataReader):
    """Gives a photograph once."""

    def __init__(self, pixels: np.ndarray):
        self.left = [{"pixel_values": pixels}]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def variants(folder: Path, name: str, pixels: np.ndarray) -> dict[str, Path]:
    """All files by what is tried in them, the float32 one first."""
    model, files = zoo.from_pretrained(name, weights="random"), {}
    for words, opset in OPSETS.items():
        for kind in ("float32", "int8"):
            files[kind + words] = folder / f"{kind}-{opset}.onnx"
        zoo.to_onnx(model, files[f"float32{words}"], opset=opset, verify=False)
        derive(files[f"float32{words}"], files[f"int8{words}"], "int8", [pixels])
    files["convolutions in integers"] = folder / "convolutions.onnx"
    quantize_static(
        *(files["int8"], files["convolutions in integers"], Photograph(pixels)),
        op_types_to_quantize=["Conv"],
        activation_type=QuantType.QUInt8,
        per_channel=True,
        reduce_range=True,
    )
    return files


def operators(name: str, rounds: int, folder: Path) -> None:
    """Print the time of the operators of each file."""
    how = zoo.info(name).preprocessing
    pixels = pixel_values(photographs(1), how, how.size)
    noise = np.random.default_rng(0).standard_normal(pixels.shape, np.float32)
    files = variants(folder, name, pixels)
    times = profiled(files, rounds, noise, folder)
    wanted = converter.run(files["float32"], [pixels])
    floor = sum(times["float32"].get(kind, 0) for kind in PRODUCTS)
    print(f"products and convolutions in float32: {floor:.2f} ms")
    for file, kinds in times.items():
        cosine = least_cosine(converter.run(files[file], [pixels]), wanted)
        shown = ", ".join(f"{kind} {time:.2f}" for kind, time in [*kinds.items()][:8])
        print(f"{sum(kinds.values()) / floor:.3f}  {cosine:.5f}  {file}: {shown}")


def scales(name: str, rounds: int, folder: Path) -> None:
    """Print the table of scales."""
    side = zoo.info(name).preprocessing.size
    pixels = np.random.default_rng(0).standard_normal((max(BATCHES), 3, *side), np.float32)
    files = {each: folder / f"{each}.onnx" for each in ("float32", "tensor", "row")}
    model = zoo.from_pretrained(name, weights="random")
    zoo.to_onnx(model, files["float32"], size="dynamic", opset=23, verify=False)
    for each in ("tensor", "row"):
        derive(files["float32"], files[each], "int8", [pixels[:1]], scales=each)
    live = {each: resting_session(file, 1) for each, file in files.items()}
    rows = []
    for batch in BATCHES:
        tasks = {it: as_task(each, {"pixel_values": pixels[:batch]}) for it, each in live.items()}
        times = measure_interleaved(tasks, rounds, time.process_time)
        got = {it: converter.run(each, [pixels[:batch]]) for it, each in live.items()}
        for each in ("tensor", "row"):
            alone = converter.run(live[each], [pixels[:1]])
            moved = max(abs(alone[key] - value[:1]).max() for key, value in got[each].items())
            ratio = median(times[each]) / median(times["float32"])
            cosine = least_cosine(got[each], got["float32"])
            rows.append([each, str(batch), f"{ratio:.2f}", f"{cosine:.5f}", f"{moved:.2g}"])
    print(*table(["scales", "batch", "time", "cosine", "moves by"], rows), sep="\n")


def calibration(name: str, rounds: int, folder: Path) -> None:
    """Print the tables of the digits, and of runtimes."""
    seen, apart = split_digits()
    how = zoo.info("vit_digits").preprocessing
    shown = [*map(Image.fromarray, seen.images[:PICTURES])]
    files = files_of(zoo.from_pretrained("vit_digits"), "vit_digits", shown, folder / "digits")
    pixels = pixel_values([*map(Image.fromarray, apart.images)], how, how.size)
    found = {way: converter.run(file, [pixels]) for way, file in files.items()}
    taken, rows = times(files, pixels[:64], rounds), []
    for way, got in found.items():
        right = (got["logits"].argmax(-1) == apart.labels).mean()
        cosine, size = least_cosine(got, found["float32"]), files[way].stat().st_size
        rows.append([way, f"{right:.2%}", f"{cosine:.5f}", f"{size:,}", taken[way][0]])
    print(*table(["activations", "held-out digits", "cosine", "bytes", "time"], rows), sep="\n")
    how, several = zoo.info(name).preprocessing, photographs(8)
    model = zoo.from_pretrained(name, weights="random")
    files = files_of(model, name, several, folder / "pictures")
    taken = times(files, pixel_values(several[:1], how, how.size), rounds)
    rows = [[way, *ratios] for way, ratios in taken.items()]
    print(*table(["activations", "ONNX Runtime", "OpenVINO"], rows), sep="\n")


def files_of(model: object, name: str, pictures: Sequence[Image.Image], place: Path):
    """The float32 file, and those in int8; the pictures lie beside them."""
    place.mkdir()
    files = {way: place / f"{way}.onnx" for way in ("float32", "dynamic", "minmax")}
    how, source = zoo.info(name).preprocessing, files["float32"]
    zoo.to_onnx(model, source, verify=False)
    for index, picture in enumerate(pictures):
        picture.save(place / f"{index:04}.png")
    derive(source, files["dynamic"], "int8", [pixel_values(photographs(1), how, how.size)])
    calibrator = Calibrator(read_picture_folder(place), how, how.size, 1)
    seen = calibrator.ranges(source, Quiet())
    means = {name: each.means for name, each in seen.items()}
    write_with_ranges(source, files["minmax"], full_ranges(seen), means)
    return files


def times(files: Mapping[str, Path], pixels: np.ndarray, rounds: int) -> dict[str, list[str]]:
    """Fastest runs over those of float32, in ONNX Runtime and in OpenVINO."""
    core, settings = ov.Core(), {"INFERENCE_NUM_THREADS": THREADS}
    settings["INFERENCE_PRECISION_HINT"] = "f32"
    tasks = {}
    for way, file in files.items():
        tasks[way, 0] = as_task(resting_session(file, THREADS), {"pixel_values": pixels})
        request = core.compile_model(file, "CPU", settings).create_infer_request()
        tasks[way, 1] = partial(request.infer, {0: pixels})
    found = {key: min(each) for key, each in measure_interleaved(tasks, rounds).items()}
    return {way: [f"{found[way, n] / found['float32', n]:.2f}" for n in (0, 1)] for way in files}


TABLES = {"operators": operators, "scales": scales, "calibration": calibration}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--model", default="dinov3_vits16")
    parser.add_argument("--rounds", type=int, default=20)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        TABLES[asked.table](asked.model, asked.rounds, Path(folder))


if __name__ == "__main__":
    main()
