"""`zoo report`: seeded checkpoints, as their publishers lay them out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import zoo
from tests.formats import NANO
from tests.seeded import nano, state_of
from tests.synthetic import save_pth
from weights.progress import Quiet
from zoo.manifest.measured import worst
from zoo.report import content, matching, neighbours, page
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


@pytest.mark.full
def test_two_families(tmp_path):
    """EUPE, which transformers does not have, says so."""
    configs = {"dinov3_vits16": NANO, "eupe_vitt16": nano(zoo.info("eupe_vitt16").config)}
    entries = [meta_file(tmp_path, name, config) for name, config in configs.items()]
    (tmp_path / "notes.txt").write_text("no checkpoint")
    there = matching.find(tmp_path, entries)
    assert list(there.found) == [entry.name for entry in entries]
    assert list(there.left_out) == ["notes.txt"]
    task = neighbours.read_task(pictures_of_classes(tmp_path / "images", 4))
    variants = ("fp32", "fused", "int8")
    report = content.EMPTY
    for entry in entries:
        path = there.found[entry.name]
        report = page.add(report, measure_model(entry, path, variants, task, Quiet()))
    page.write_page(report, tmp_path / "pretrained.md")
    assert content.read_report(tmp_path / "pretrained.json") == report
    dinov3, eupe = report.models
    assert dinov3.against.library.startswith("transformers ")
    assert dinov3.against.in_jax < 3e-5
    assert eupe.against is None
    for each in report.models:
        files = each.files
        assert each.passed and list(files) == ["fp32", "fused", "int8"]
        assert worst(files["fp32"].verification.comparisons, "max_abs") < 1e-4
        assert worst(files["int8"].verification.comparisons, "cosine") > 0.99
        assert files["int8"].bytes < files["fp32"].bytes
        assert files["fp32"].accuracy == files["fused"].accuracy == 1
    told = (tmp_path / "pretrained.md").read_text()
    assert f"| eupe_vitt16 | {there.found['eupe_vitt16'].name} | " in told
    assert "8 images of images in 2 classes, each by its 7 nearest of 8 images" in told


def test_a_folder_of_the_hub_is_a_checkpoint(tmp_path):
    """Equimo's archive counts for more."""
    entry = zoo.info("siglip2_vitb16_224")
    folder, file = tmp_path / Path(entry.repository).name, tmp_path / entry.archive
    folder.mkdir()
    assert matching.find(tmp_path, [entry]).found == {entry.name: folder}
    file.touch()
    assert matching.find(tmp_path, [entry]).found == {entry.name: file}


def test_the_page_is_what_its_numbers_say():
    report = content.read_report(ROOT / "docs" / "pretrained.json")
    assert (ROOT / "docs" / "pretrained.md").read_text() == page.render(report)
    assert all(each.is_published_file for each in report.models)


@pytest.mark.full
def test_votes_are_those_of_scikit_learn():
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


def test_images_with_a_split(tmp_path):
    for part, count in (("train", 3), ("val", 2)):
        pictures_of_classes(tmp_path / "photos" / part, count)
    task = neighbours.read_task(tmp_path / "photos")
    assert (task.told.known, task.told.asked, task.told.nearest) == (6, 4, 6)
    np.testing.assert_array_equal(task.asked.labels, [0, 0, 1, 1])
