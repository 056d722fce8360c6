"""`zoo report`: seeded checkpoints, as their publishers lay them out."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import zoo
from tests.formats import NANO
from tests.references.towers import save_towers, tokenizer
from tests.seeded import nano, state_of
from tests.synthetic import save_pth
from weights.progress import Quiet
from zoo.manifest.measured import worst
from zoo.report import (
    budget,
    content,
    depths,
    kit,
    labelled,
    matching,
    neighbours,
    page,
    received,
    zero_shot,
)
from zoo.report.accuracy import measure_model

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


def rooms(folder, count):
    """Ramps from dark, which is near, to bright; what is nearest is not known."""
    folder.mkdir()
    for index in range(count):
        turn = 2 * np.pi * index / count
        rows, columns = np.mgrid[-1:1:60j, -1:1:80j]
        ramp = 0.5 + 0.35 * (np.cos(turn) * rows + np.sin(turn) * columns)
        grey = (255 * np.clip(ramp, 0, 1)).astype(np.uint8)
        Image.fromarray(grey).convert("RGB").save(folder / f"{index:02}.png")
        np.save(folder / f"{index:02}.npy", np.where(ramp < 0.1, 0, 10 * ramp).astype(np.float32))
    return folder


CONFIGS = {"dinov3_vits16": NANO, "eupe_vitt16": nano(zoo.info("eupe_vitt16").config)}


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Two checkpoints, images of two classes, and the report about them, made in two runs."""
    here = tmp_path_factory.mktemp("report")
    entries = [meta_file(here, name, config) for name, config in CONFIGS.items()]
    (here / "notes.txt").write_text("no checkpoint")
    task = labelled.read_task(pictures_of_classes(here / "images", 4))
    places = depths.read_depth_task(rooms(here / "rooms", 16))
    asked = kit.ReportRequest(here, entries, ("fp32", "int8"), task, 60, here / "made", places)
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
        assert files["fp32"].scores | {"depth": 0} == {"k-NN": 100, "linear": 100, "depth": 0}
        # Whoever always says the mean is off by 2 metres.
        assert files["fp32"].scores["depth"] < 0.6
        assert (each.depths.known, each.depths.asked) == (12, 4)
        assert all((asked.folder / name).is_file() for name in each.pictures)
        assert len(each.pictures) == 2
    told = (asked.folder / content.PAGE).read_text()
    assert f"| eupe_vitt16 | {there.found['eupe_vitt16'].name} | " in told
    assert "8 images of images in 2 classes, by 8 images (each leaving itself out), of" in told
    assert "4 pictures of rooms, by a layer that was fitted to 12 others" in told
    assert "| 78.6 | ImageNet-1k | arXiv:2603.22387, tables 1, 4 and 5 | fp32 100.00" in told


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


@pytest.mark.full
def test_sentences_about_classes_are_those_of_transformers(tmp_path, monkeypatch):
    """The tower for texts is that of the checkpoint whose images are asked."""
    model = save_towers(tmp_path)
    name = "siglip2_vitb16_224"
    entry, tower = zoo.info(name), zoo.info(f"{name}_text")
    small = replace(tower, config=nano(zoo.info(f"{name}_dual").config).words)
    monkeypatch.setitem(zero_shot.MODELS, tower.name, small)
    found = zero_shot.sentence_vectors(entry, tmp_path, ["cat", "red_car", "dog"], Quiet())
    texts = [f"a photo of a {each}." for each in ("cat", "red car", "dog")]
    ids = [each.ids for each in tokenizer().encode_batch(texts)]
    fed = torch.tensor([each + [0] * (small.config.tokens - len(each)) for each in ids])
    with torch.inference_mode():
        right = model.text_model(input_ids=fed).pooler_output
    right = torch.nn.functional.normalize(right).numpy()
    np.testing.assert_allclose(found, right, atol=3e-5)
    assert abs(right[0] - right[2]).max() > 0.01
    known = zoo.info("convnext_tiny")
    synsets = [f"n{number:08}" for number in range(1000)]
    assert zero_shot.words_of(synsets)[1] == known.class_names[1].partition(",")[0] == "goldfish"
    assert zero_shot.words_of(synsets[:9]) is None


@pytest.mark.full
def test_depths_are_read_by_the_layer_of_scikit_learn():
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(2)
    features = rng.standard_normal((5, 3, 4, 6)).astype(np.float32)
    metres = rng.uniform(1, 9, (5, 3, 4)).astype(np.float32)
    metres[2, 1] = 0  # of which nothing is known
    # Two rows and three columns of pixels for each patch.
    whole = [each.repeat(2, axis=0).repeat(3, axis=1) for each in metres]
    layer = depths.fitted(zip(features, whole, strict=True), 6)
    rows, right = features[metres > 0], metres[metres > 0]
    alpha = neighbours.RIDGE * ((rows - rows.mean(axis=0)) ** 2).sum() / 6
    judge = Ridge(alpha).fit(rows.astype(np.float64), right)
    np.testing.assert_allclose(
        layer(features[0]).ravel(), judge.predict(features[0].reshape(-1, 6)), rtol=1e-5
    )


@pytest.mark.full
def test_votes_are_those_of_scikit_learn():
    from sklearn.linear_model import Ridge
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng(1)
    labels = rng.integers(0, 5, 90)
    rows = rng.standard_normal((130, 12)).astype(np.float32)
    rows[:90] += 2 * np.eye(12, dtype=np.float32)[labels]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    weights = {"metric": "cosine", "weights": lambda distance: np.exp((1 - distance) / 0.07)}
    judge = KNeighborsClassifier(20, **weights).fit(rows[:90], labels)
    votes = neighbours.vote(rows[:90], labels, rows[90:], 20)
    np.testing.assert_array_equal(votes, judge.predict(rows[90:]))
    alone = neighbours.vote(rows[:90], labels, rows[:90], 20, leave_out=True)
    for index in (0, 41, 89):
        kept = np.arange(90) != index
        judge.fit(rows[:90][kept], labels[kept])
        assert alone[index] == judge.predict(rows[index : index + 1])[0]
    wanted, middle = np.eye(5)[labels], rows[:90].mean(axis=0)
    alpha = neighbours.RIDGE * ((rows[:90] - middle) ** 2).sum() / 12
    linear = Ridge(alpha).fit(rows[:90], wanted)
    found = neighbours.regress(rows[:90], labels, rows[90:])
    np.testing.assert_array_equal(found, linear.predict(rows[90:]).argmax(axis=1))
    alone = neighbours.regress(rows[:90], labels, rows[:90], leave_out=True)
    for index in range(90):
        kept = np.arange(90) != index
        linear.fit(rows[:90][kept], wanted[kept])
        assert alone[index] == linear.predict(rows[index : index + 1])[0].argmax()


def test_images_with_a_split(tmp_path):
    for part, count in (("train", 3), ("val", 2)):
        pictures_of_classes(tmp_path / "photos" / part, count)
    task = labelled.read_task(tmp_path / "photos")
    assert (task.told.known, task.told.asked, task.told.nearest) == (6, 4, 6)
    np.testing.assert_array_equal(task.asked.labels, [0, 0, 1, 1])
    few = task.fitting(8)
    assert (few.told.known, few.told.asked, few.told.left_out, few.told.nearest) == (4, 4, 2, 4)
    assert [path.stem for path in few.known.paths] == ["0", "2"] * 2
    assert task.fitting(7) is None and task.fitting(10) is task
    folders = ("n01440764", "n01443537")
    assert labelled.class_order(folders, ("tench", "goldfish")) == [0, 1]
    assert labelled.class_order(("b", "a"), ("a", "b")) == [1, 0]
    assert labelled.class_order(("a", "c"), ("a", "b")) is None
