"""int8 whose activations are ranged on somebody's pictures: ranges, the choice, and the files."""

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
from zoo.export.calibration import choose_candidate, minmax_ranges, write_with_ranges
from zoo.export.precision import load_with_types
from zoo.export.quantise.activations import measure_ranges
from zoo.export.quantise.products import find_products
from zoo.export.quantise.smooth_quant import smooth_activations
from zoo.images.picture_folder import MAX_PICTURES, read_picture_folder

EXPORT = ("export", "vit_digits", "--precision", "int8", "--calibrate", "seen", "--out", "out")
NAME = "vit_digits-opset23-int8.onnx"


class Reader(CalibrationDataReader):
    def __init__(self, batches):
        self.fed = iter([{"pixel_values": batch} for batch in batches])

    def get_next(self):
        return next(self.fed, None)


@pytest.mark.parametrize("name", ["dinov3_vits16", "vit5_small"])
def test_least_and_largest(name, tmp_path):
    """As in ONNX Runtime's own calibrator, batch by batch, of pictures that are not square."""
    file = write(tmp_path / "source.onnx", MODELS[name], 18)
    batches = [(1 + index) * pixels(MODELS[name]) for index in range(3)]
    seen = measure_ranges(load_with_types(file), [[batch] for batch in batches])
    theirs = create_calibrator(
        file, ["MatMul"], str(tmp_path / "more.onnx"), CalibrationMethod.MinMax
    )
    theirs.collect_data(Reader(batches))
    wanted = theirs.compute_data()
    there = [*find_products(ir.load(file).graph)]
    assert len(there) == len(seen)
    for product in there:
        ends, found = wanted[product.left.name].range_value, seen[product.name]
        np.testing.assert_allclose((found.low, found.high), np.ravel(ends), rtol=1e-6)
        assert found.means.shape == product.shape[:1]


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
def test_the_choice(measured, best):
    """The fastest that is near enough; the more exact of two that are equally fast."""
    candidates = {
        way: RangedFile(cosine=cosine, speed=Speed(p50_ms=time, ratio=1 / time))
        for way, (cosine, time) in measured.items()
    }
    assert choose_candidate(candidates, 0.99) == best


def fixed(source, file, batches, runtime="onnxruntime"):
    """A file with ranges that the batches gave."""
    model = load_with_types(source)
    smooth_activations(model)
    seen = measure_ranges(model, [[batch] for batch in batches])
    means = {name: each.means for name, each in seen.items()}
    write_with_ranges(source, file, minmax_ranges(seen), means, runtime=runtime)
    return file


@pytest.mark.each()
@needs_quantized_23
@pytest.mark.parametrize("opset", [18, 23])
def test_it_runs_elsewhere(opset, tmp_path):
    """The standard's own operators, which tract multiplies as ONNX Runtime does."""
    load.need("tract")
    config = MODELS["dinov3_vits16"]
    image = pixels(config)
    source = write(tmp_path / "source.onnx", config, opset, target="tract")
    file = fixed(source, tmp_path / "file.onnx", [image], "tract")
    onnx.checker.check_model(file, full_check=True)
    assert {node.domain for node in onnx.load(file).graph.node} == {""}
    wanted = converter.run(source, [image])
    found = converter.run(file, [image])
    assert min(converter.compare(found[name], wanted[name]).cosine for name in wanted) > 0.99
    assert furthest(load.RUNTIMES["tract"](file)([image]), [*found.values()]) < 3e-2


@pytest.fixture
def seen(zoo):
    """A few digits, some in a folder inside; and what is no picture."""
    (zoo.here / "seen" / "more").mkdir(parents=True)
    for index, image in enumerate(split_digits()[0].images[:20]):
        place = zoo.here / "seen" / ("more" if index % 2 else "")
        Image.fromarray(image).save(place / f"{index}.png")
    (zoo.here / "seen" / "labels.csv").write_text("0.png,0")
    return zoo.here / "seen"


@needs_quantized_23
def test_from_pictures_to_a_file(seen, zoo):
    told = zoo(*EXPORT, "--size", "8x12", "--batch", 3).out
    assert "by 18 pictures, measured on 2 others (minmax cosine 0.99" in told
    assert {path.name for path in (zoo.here / "out").iterdir()} == {
        NAME,
        f"{NAME[:-5]}.manifest.json",
    }
    assert "as listed" in zoo("verify", zoo.here / "out" / NAME).out
    calibration = read_nearby_manifest(zoo.here / "out" / NAME).only_variant.calibration
    assert set(calibration.candidates) == {"dynamic", "minmax"}
    assert calibration.sha256 == read_picture_folder(seen).digest
    (seen / "0.png").rename(seen / "00.png")
    assert calibration.sha256 != read_picture_folder(seen).digest


@pytest.mark.full
def test_a_build_is_of_its_pictures(seen, zoo):
    """Files that were ranged on others are made anew; a target of another runtime gets ranges."""
    build = ("build", "vit_digits", "--variant", "fp32,int8")
    for more, built in (
        (("--calibrate", "seen"), ["int8", "fp32"]),
        (("--calibrate", "seen"), []),
        ((), ["int8"]),
    ):
        (record,) = zoo.json(*build, *more)
        assert sorted(record["built"]) == sorted(built)
        assert ("calibration" in record["manifest"]["variants"]["int8"]) == bool(more)
    (found,) = zoo.json(*EXPORT, "--target", "openvino")
    assert set(found["variants"]["int8"]["calibration"]["candidates"]) == {"minmax"}


def test_many_pictures_are_taken_evenly(tmp_path):
    picture = Image.new("RGB", (1, 1))
    for index in range(2 * MAX_PICTURES):
        picture.save(tmp_path / f"{index:04}.bmp")
    found = read_picture_folder(tmp_path)
    assert [path.stem for path in found.paths] == [
        f"{2 * index:04}" for index in range(MAX_PICTURES)
    ]
    assert (
        len(found.calibration_paths) == 7 * len(found.held_out_paths)
        and found.picture_count == 2 * MAX_PICTURES
    )


@pytest.mark.full
def test_digits_are_still_read(tmp_path):
    """Within a point of float32: a tenth of a percent of the cosine is no more (0.28 measured)."""
    to_onnx(from_pretrained("vit_digits"), tmp_path / "source.onnx", verify=False)
    batches = [(split_digits()[0].images[:256].transpose(0, 3, 1, 2) / np.float32(127.5)) - 1]
    file = fixed(tmp_path / "source.onnx", tmp_path / "file.onnx", batches)
    assert abs(accuracy(file) - accuracy(tmp_path / "source.onnx")) <= 0.01
