"""int8 files with activation ranges from calibration pictures: ranges, the choice, the files.

Ranges are compared with those of ONNX Runtime's calibrator, outputs with the float32 file.
"""

from types import SimpleNamespace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod
from onnxruntime.quantization.calibrate import create_calibrator
from PIL import Image

import converter
from tests.runtimes import load
from tests.runtimes.load import needs_quantized_23
from tests.runtimes.networks import furthest
from tests.zoo.architectures.test_digits import accuracy
from tests.zoo.export.test_precision import MODELS, pixels, write
from zoo import from_pretrained, to_onnx
from zoo.artifacts.measured import RangedFile, Speed
from zoo.artifacts.read import read_nearby_manifest
from zoo.data.digits.data import split_digits
from zoo.export.assemble.folder import has_same_activations
from zoo.export.calibration import choose_candidate, minmax_ranges, write_with_ranges
from zoo.export.precision import load_with_types
from zoo.export.quantise.activations import measure_ranges
from zoo.export.quantise.products import find_products
from zoo.export.quantise.smooth_quant import smooth_activations
from zoo.images.picture_folder import MAX_PICTURES, read_picture_folder


@pytest.mark.parametrize(
    ("precision", "calibrated", "digest", "scales", "expected"),
    [
        ("int8", "a", "a", "tensor", True),
        ("int8", "a", "b", "tensor", False),
        ("int8", "a", None, "tensor", False),
        ("int8", None, "a", "tensor", False),
        ("int8", "a", "a", "row", False),
        ("fp32", None, "a", "row", True),
        ("fp16", None, "a", "tensor", True),
    ],
)
def test_whether_a_file_is_built_again(precision, calibrated, digest, scales, expected):
    """A file is built again for other calibration pictures or scales, if it has scales of
    activations."""
    calibration = calibrated and SimpleNamespace(sha256=calibrated)
    variant = SimpleNamespace(precision=precision, calibration=calibration, scales=None)
    assert has_same_activations(variant, digest, scales) == expected


EXPORT = ("export", "vit_digits", "--precision", "int8", "--calibrate", "seen", "--out", "out")
NAME = "vit_digits-opset23-int8.onnx"


class Reader(CalibrationDataReader):
    """The batches, in the interface of ONNX Runtime's calibrator."""

    def __init__(self, batches):
        self.feeds = iter([{"pixel_values": batch} for batch in batches])

    def get_next(self):
        return next(self.feeds, None)


@pytest.mark.parametrize("name", ["dinov3_vits16", "vit5_small"])
def test_ranges_are_those_of_onnx_runtime_s_calibrator(name, tmp_path):
    """The ranges of several batches of pictures that are not square agree."""
    file = write(tmp_path / "source.onnx", MODELS[name], 18)
    batches = [(1 + index) * pixels(MODELS[name]) for index in range(3)]
    activations = measure_ranges(load_with_types(file), [[batch] for batch in batches])
    calibrator = create_calibrator(
        file, ["MatMul"], str(tmp_path / "more.onnx"), CalibrationMethod.MinMax
    )
    calibrator.collect_data(Reader(batches))
    ranges = calibrator.compute_data()
    products = [*find_products(ir.load(file).graph)]
    assert len(products) == len(activations)
    for product in products:
        ends, activation = ranges[product.left.name].range_value, activations[product.name]
        np.testing.assert_allclose((activation.low, activation.high), np.ravel(ends), rtol=1e-6)
        assert activation.means.shape == product.shape[:1]


@pytest.mark.parametrize(
    ("measured", "best"),
    [
        ({"dynamic": (0.999, 2.0), "minmax": (0.995, 1.0)}, "minmax"),
        ({"dynamic": (0.999, 1.0), "minmax": (0.98, 0.5)}, "dynamic"),
        ({"dynamic": (0.999, 1.0), "minmax": (0.995, 0.95)}, "dynamic"),
        ({"dynamic": (0.9, 9.0), "minmax": (0.8, 1.0)}, "dynamic"),
        ({"dynamic": (None, 1.0), "minmax": (0.8, 9.0)}, "minmax"),
        ({"minmax": (0.991, 1.0)}, "minmax"),
    ],
)
def test_choice_of_a_candidate(measured, best):
    """It is the fastest candidate whose cosine reaches the limit. Of two that are about equally
    fast it is the more exact one."""
    candidates = {
        method: RangedFile(cosine=cosine, speed=Speed(p50_ms=time, ratio=1 / time))
        for method, (cosine, time) in measured.items()
    }
    assert choose_candidate(candidates, 0.99) == best


def write_calibrated(source, file, batches, runtime="onnxruntime"):
    """Write an int8 file with the ranges of the activations of these batches. Return its path."""
    model = load_with_types(source)
    smooth_activations(model)
    picture_folder = measure_ranges(model, [[batch] for batch in batches])
    means = {name: activation.means for name, activation in picture_folder.items()}
    write_with_ranges(source, file, minmax_ranges(picture_folder), means, runtime=runtime)
    return file


@pytest.mark.each()
@needs_quantized_23
@pytest.mark.parametrize("opset", [18, 23])
def test_calibrated_files_run_in_tract(opset, tmp_path):
    """The file has only operators of the standard, and tract computes what ONNX Runtime does."""
    load.need("tract")
    config = MODELS["dinov3_vits16"]
    image = pixels(config)
    source = write(tmp_path / "source.onnx", config, opset, target="tract")
    file = write_calibrated(source, tmp_path / "file.onnx", [image], "tract")
    onnx.checker.check_model(file, full_check=True)
    assert {node.domain for node in onnx.load(file).graph.node} == {""}
    source_outputs = converter.run(source, [image])
    outputs = converter.run(file, [image])
    assert (
        min(
            converter.compare(outputs[name], source_outputs[name]).cosine for name in source_outputs
        )
        > 0.99
    )
    assert furthest(load.RUNTIMES["tract"](file)([image]), [*outputs.values()]) < 3e-2


@pytest.fixture
def picture_folder(zoo):
    """A folder with 20 digits, half of them in a subfolder, and a file that is no picture."""
    (zoo.here / "seen" / "more").mkdir(parents=True)
    for index, image in enumerate(split_digits()[0].images[:20]):
        folder = zoo.here / "seen" / ("more" if index % 2 else "")
        Image.fromarray(image).save(folder / f"{index}.png")
    (zoo.here / "seen" / "labels.csv").write_text("0.png,0")
    return zoo.here / "seen"


@needs_quantized_23
def test_export_with_calibration_pictures(picture_folder, zoo):
    printed = zoo(*EXPORT, "--size", "8x12", "--batch", 3).out
    assert "by 18 pictures, measured on 2 others (minmax cosine 0.99" in printed
    assert {path.name for path in (zoo.here / "out").iterdir()} == {
        NAME,
        f"{NAME[:-5]}.manifest.json",
    }
    assert "as listed" in zoo("verify", zoo.here / "out" / NAME).out
    calibration = read_nearby_manifest(zoo.here / "out" / NAME).only_variant.calibration
    assert set(calibration.candidates) == {"dynamic", "minmax"}
    assert calibration.sha256 == read_picture_folder(picture_folder).digest
    (picture_folder / "0.png").rename(picture_folder / "00.png")
    assert calibration.sha256 != read_picture_folder(picture_folder).digest


@pytest.mark.full
def test_builds_with_other_pictures(picture_folder, zoo):
    """A build with other calibration pictures writes int8 again. A file for OpenVINO is always
    calibrated with fixed ranges."""
    build = ("build", "vit_digits", "--variant", "fp32,int8")
    for options, built in (
        (("--calibrate", "seen"), ["int8", "fp32"]),
        (("--calibrate", "seen"), []),
        ((), ["int8"]),
    ):
        (record,) = zoo.json(*build, *options)
        assert sorted(record["built"]) == sorted(built)
        assert ("calibration" in record["manifest"]["variants"]["int8"]) == bool(options)
    (record,) = zoo.json(*EXPORT, "--target", "openvino")
    assert set(record["variants"]["int8"]["calibration"]["candidates"]) == {"minmax"}


def test_many_pictures_are_sampled_evenly(tmp_path):
    picture = Image.new("RGB", (1, 1))
    for index in range(2 * MAX_PICTURES):
        picture.save(tmp_path / f"{index:04}.bmp")
    pictures = read_picture_folder(tmp_path)
    assert [path.stem for path in pictures.paths] == [
        f"{2 * index:04}" for index in range(MAX_PICTURES)
    ]
    assert (
        len(pictures.calibration_paths) == 7 * len(pictures.held_out_paths)
        and pictures.picture_count == 2 * MAX_PICTURES
    )


@pytest.mark.full
def test_accuracy_of_a_calibrated_file(tmp_path):
    """The accuracy is within a point of the float32 file (0.28 points measured)."""
    to_onnx(from_pretrained("vit_digits"), tmp_path / "source.onnx", verify=False)
    batches = [(split_digits()[0].images[:256].transpose(0, 3, 1, 2) / np.float32(127.5)) - 1]
    file = write_calibrated(tmp_path / "source.onnx", tmp_path / "file.onnx", batches)
    assert abs(accuracy(file) - accuracy(tmp_path / "source.onnx")) <= 0.01
