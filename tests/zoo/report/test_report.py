"""`zoo report`: seeded checkpoints, as their publishers lay them out; and files in every provider,
of which one does not start."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from PIL import Image

import zoo
from tests.formats import NANO
from tests.runtimes.load import needs_placement
from tests.seeded import nano, state_of
from tests.synthetic import save_pth
from weights.progress import Quiet
from zoo.artifacts.measured import worst
from zoo.common import runtime
from zoo.data.digits.data import split_digits
from zoo.report import (
    box_precision,
    budget,
    content,
    kit,
    labelled,
    matching,
    page,
    providers,
    received,
)
from zoo.report.accuracy import measure_model
from zoo.report.providers import FILE, NOT_STARTED, ProvidersRequest, Ran, report_providers

ROOT = Path(__file__).parents[3]


def meta_file(folder, name, config):
    """A network of two blocks in the authors' file, called so but for the original's digest."""
    entry = replace(zoo.info(name), config=config, published={}, checkpoint=f"{name}.pth")
    save_pth(folder / entry.checkpoint, state_of(config, entry.namings[0], 3))
    return entry


def pictures_of_classes(folder, count):
    """Two classes that any features tell apart: dark and bright noise."""
    rng = np.random.default_rng(0)
    for place, level in (("dark", 40), ("light", 200)):
        (folder / place).mkdir(parents=True)
        for index in range(count):
            noise = rng.integers(level, level + 50, (60, 70, 3), np.uint8)
            Image.fromarray(noise).save(folder / place / f"{index}.png")
    return folder


CONFIGS = {"dinov3_vits16": NANO, "eupe_vitt16": nano(zoo.info("eupe_vitt16").config)}


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Two checkpoints, images of two classes, and the report about them, made in two runs."""
    here = tmp_path_factory.mktemp("report")
    entries = [meta_file(here, name, config) for name, config in CONFIGS.items()]
    (here / "notes.txt").write_text("no checkpoint")
    task = labelled.read_task(pictures_of_classes(here / "images", 4))
    asked = kit.ReportRequest(here, entries, ("fp32", "int8"), task, 60, here / "made")
    measured = []

    def stopped(path, proof, folder):
        if measured:
            raise KeyboardInterrupt
        measured.append(proof.entry.name)
        return measure_model(path, proof, folder)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(kit, "measure_model", stopped)
        kit.make_report(asked, Quiet())
    found = kit.make_report(asked, Quiet())
    assert found.already == measured and {*found.measured} == CONFIGS.keys() - {*measured}
    assert not found.left and not found.failed
    assert content.read_report(asked.folder / content.REPORT) == found.report
    return asked


@pytest.mark.full
def test_two_families(asked):
    """EUPE, which transformers does not have, says so."""
    there = matching.find(asked.weights, asked.entries)
    assert list(there.found) == [*CONFIGS] and "notes.txt" in there.left_out
    report = content.read_report(asked.folder / content.REPORT)
    dinov3, eupe = report.models
    assert dinov3.against.library.startswith("transformers ")
    assert dinov3.against.in_jax < 3e-5
    assert eupe.against is None
    for each in report.models:
        files = each.files
        assert each.passed and list(files) == ["fp32", "int8"]
        assert worst(files["fp32"].verification.comparisons, "max_abs") < 1e-4
        assert worst(files["int8"].verification.comparisons, "cosine") > 0.99
        assert files["int8"].bytes < files["fp32"].bytes
        assert files["fp32"].scores == {} and each.images.pictures == 8  # features have no classes
        assert all((asked.folder / name).is_file() for name in each.pictures)
        assert len(each.pictures) == 2
    told = (asked.folder / content.PAGE).read_text()
    assert f"| eupe_vitt16 | {there.found['eupe_vitt16'].name} | " in told
    assert "8 images of images" not in told  # nothing was found on them
    assert "| 78.6 | ImageNet-1k | arXiv:2603.22387, tables 1, 4 and 5 | not measured" in told


@pytest.mark.full
def test_no_weights_leave(asked):
    """No four numbers of a tensor that follow each other, in bytes or in digits, and no paths."""
    made = {path.name: path.read_bytes() for path in asked.folder.rglob("*") if path.is_file()}
    assert {Path(name).suffix for name in made} == {".json", ".md", ".png"}
    everything = b"".join(made.values())
    texts = "".join(made[name].decode() for name in (content.REPORT, content.PAGE))
    for entry in asked.entries:
        for tensor in state_of(entry.config, entry.namings[0], 3).values():
            values = np.asarray(tensor, np.float32).ravel()
            for start in range(0, len(values) - 3, max(1, len(values) // 5)):
                some = values[start : start + 4]
                if len({*some}) == 4:
                    raw = (some.astype(dtype).tobytes() for dtype in (np.float32, np.float16))
                    assert not any(each in everything for each in raw)
                    assert not all(f"{abs(value):.5g}" in texts for value in some)
    assert str(asked.weights) not in texts and str(Path.home()) not in texts


@pytest.mark.full
def test_received_reports_are_beside_each_other(asked, tmp_path):
    """What somebody put into a report is text on the page, and a picture that is none is left."""
    other = tmp_path / "other"
    shutil.copytree(asked.folder, other)
    record = json.loads((other / content.REPORT).read_text())
    record["models"][0]["checkpoint"] = "<script>alert(1)</script>"
    (other / content.REPORT).write_text(json.dumps(record))
    (other / record["models"][0]["pictures"][0]).write_bytes(b"<svg onload='alert(2)'/>")
    assert received.write_received([asked.folder, other], tmp_path / "all.html", force=False) == 4
    text = (tmp_path / "all.html").read_text()
    assert "<script" not in text and "onload" not in text and "&lt;script&gt;" in text
    assert text.count("data:image/webp") == 7
    assert text.count('<th scope="row">dinov3_vits16</th><td>made</td><td>fp32</td>') == 1
    assert text.count('<th scope="row">dinov3_vits16</th><td>other</td><td>fp32</td>') == 1


def test_what_there_is_time_for():
    """A machine that turns out to be half as fast as predicted has time for half of it."""
    now = [0.0]
    small, large = zoo.info("dinov3_vits16"), zoo.info("dinov3_vitb16")
    plan = budget.Budget(1000.0, 4, 50e9, clock=lambda: now[0])
    first, second = plan.takes(small), plan.takes(large)
    assert first < second < 1000
    assert plan.part(small, [large]) == pytest.approx(1000 * first / (first + second))
    now[0] = 2 * first
    plan.learn(small, 2 * first)
    assert plan.left == 1000 - 2 * first and plan.takes(large) == pytest.approx(2 * second)
    assert plan.part(large, []) == pytest.approx(plan.left)


def test_a_folder_of_the_hub_is_a_checkpoint(tmp_path):
    """Equimo's archive counts for more."""
    entry = zoo.info("siglip2_vitb16_224")
    folder, file = tmp_path / Path(entry.repository).name, tmp_path / entry.archive
    folder.mkdir()
    assert matching.find(tmp_path, [entry]).found == {entry.name: folder}
    file.touch()
    assert matching.find(tmp_path, [entry]).found == {entry.name: file}


def test_the_page_is_what_its_numbers_say():
    report = content.read_report(ROOT / "benchmarks" / "results" / "pretrained.json")
    assert (ROOT / "docs" / "pretrained.md").read_text() == page.render(report)
    assert all(each.is_published_file for each in report.models)


def test_the_share_that_a_classifier_knows(tmp_path):
    """Digits in folders of their names, asked in another order than the network's."""
    model = zoo.from_pretrained("vit_digits")
    _, digits = split_digits()
    for number, (image, label) in enumerate(zip(digits.images, digits.labels, strict=True)):
        place = tmp_path / "digits" / str(label)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number:03}.png")
    zoo.to_onnx(model, tmp_path / "digits.onnx")
    task = labelled.read_task(tmp_path / "digits")
    live, entry = runtime.session(tmp_path / "digits.onnx"), zoo.info("vit_digits")
    logits = jax.vmap(model)(zoo.preprocess(model, list(digits.images))).logits
    right = 100 * (np.argmax(logits, axis=1) == digits.labels).mean()
    assert 95 < right < 100
    assert labelled.classifier_accuracy(live, task, entry) == pytest.approx(right)
    few = task.fitting(60)
    assert (len(few.paths), few.told.left_out) == (60, len(digits.labels) - 60)
    assert {*few.labels} == {*range(10)} and task.fitting(9) is None
    assert labelled.classifier_accuracy(live, task, zoo.info("convnext_tiny")) is None


def test_classes_of_folders():
    folders = ("n01440764", "n01443537")
    assert labelled.class_order(folders, ("tench", "goldfish")) == [0, 1]
    assert labelled.class_order(("b", "a"), ("a", "b")) == [1, 0]
    assert labelled.class_order(("a", "c"), ("a", "b")) is None


@pytest.mark.parametrize(
    ("outputs", "name"),
    [(("logits", "pred_boxes"), "thing"), (("logits", "image_embeds"), "person")],
    ids=["other classes", "no boxes"],
)
def test_boxes_that_cannot_be_judged(outputs, name):
    """Nothing is run of a file without boxes, or of other classes than those of the pictures."""
    live = SimpleNamespace(get_outputs=lambda: [SimpleNamespace(name=each) for each in outputs])
    known = SimpleNamespace(categories=(SimpleNamespace(id=1, name=name),))
    task = SimpleNamespace(known=known, paths=())
    assert box_precision.box_precision(live, task, zoo.info("rf_detr_nano")) is None


ABSENT = "CUDAExecutionProvider"


@needs_placement
@pytest.mark.filterwarnings("ignore:Specified provider")
def test_every_file_in_every_provider(tmp_path, monkeypatch):
    """Without a card: its provider has a line that says so, and the CPU's are as they are."""
    monkeypatch.setattr(runtime, "available", lambda: [ABSENT, runtime.CPU])
    asked = ProvidersRequest(["vit_digits"], ("fp32", "bf16"), tmp_path / "new" / "out")
    found = report_providers(asked, Quiet())
    exact, half = found.files
    assert set(exact.outcomes) == {ABSENT, runtime.CPU}
    assert exact.outcomes[ABSENT] == Ran(failed=NOT_STARTED)
    ran = exact.outcomes[runtime.CPU]
    assert ran.max_rel == 0 and ran.nodes[runtime.CPU] > 100 and ran.run_ms and not ran.failed
    assert "NOT_IMPLEMENTED" in (half.outcomes[runtime.CPU].failed or "")
    told = json.loads((tmp_path / "new" / "out" / FILE).read_text())
    assert told["providers"] == [ABSENT, runtime.CPU]
    assert told["libraries"]["onnxruntime"] == runtime.RELEASE
    assert [each["file"] for each in told["files"]] == ["onnx/model.onnx", "onnx/model_bf16.onnx"]


@pytest.mark.parametrize(
    ("got", "max_rel"), [([3.0, -4.0], 0), ([3.0, -4.5], 0.125), ([3.0, np.nan], None)]
)
def test_the_difference_is_from_the_cpu(got, max_rel):
    arrays = {"y": np.array(got)}, {"y": np.array([3.0, -4.0])}
    assert providers._compared(Ran(), *arrays, "fp32").max_rel == max_rel


def test_an_output_of_another_shape_is_said():
    arrays = {"y": np.zeros(3)}, {"y": np.zeros(2)}
    assert "float64[3]" in (providers._compared(Ran(), *arrays, "fp32").failed or "")
