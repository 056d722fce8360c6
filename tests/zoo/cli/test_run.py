"""`zoo run`: answers of models by name, from a checkpoint, a file and a folder.

They are compared with the outputs in JAX, with programs of cards, and with the README.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import zoo as package
from tests.code_blocks import code_blocks
from zoo.data.digits.data import split_digits
from zoo.images.photograph import photograph

README = Path(__file__).parents[3] / "README.md"
TOWERS = "siglip_digits_dual"

SCORE_TOLERANCE = 1e-5
"""The tolerance of scores. JAX and ONNX Runtime differ by 1e-6."""


@pytest.mark.full
def test_a_name_a_file_and_a_folder_give_the_same_answers(zoo):
    """The five best answers are sorted. Without a picture, the bundled photograph is used."""
    zoo("export", "vit_digits", "--opset", 18)
    zoo("build", "vit_digits", "--variant", "fp32", "--out", "built")
    photograph().rotate(90).save(zoo.here / "turned.png")
    model = package.from_pretrained("vit_digits")
    pixels = package.preprocess(model, [photograph(), photograph().rotate(90)])
    logits = np.stack([np.asarray(model(image).logits) for image in pixels])
    probabilities = torch.from_numpy(logits).softmax(-1).numpy()
    for source in ("vit_digits", "vit_digits-opset18.onnx", "built/vit_digits"):
        (first,) = zoo.json("run", source)
        (second,) = zoo.json("run", source, "turned.png")
        assert [first["picture"], second["picture"]] == ["chelsea.png", "turned.png"]
        for record, expected in ((first, probabilities[0]), (second, probabilities[1])):
            order = [int(answer["label"]) for answer in record["answers"]]
            assert order == np.argsort(-expected)[:5].tolist() and set(record) == {
                "picture",
                "answers",
            }
            for answer in record["answers"]:
                assert abs(answer["score"] - expected[int(answer["label"])]) <= SCORE_TOLERANCE
    lines = zoo("run", "built/vit_digits").out.splitlines()
    assert lines[0].strip() == "chelsea.png" and lines[2].split()[0] == str(
        probabilities[0].argmax()
    )
    (loaded,) = package.load(zoo.here / "built/vit_digits").answer(photograph())
    assert (
        loaded.answers
        == package.load("vit_digits", folder="built/vit_digits").answer([photograph()])[0].answers
    )
    assert "patches an image" in zoo("show", "built/vit_digits", "turned.png").out


@pytest.mark.full
def test_labels_of_a_bundled_model(zoo):
    """The name (in JAX), the folder (in ONNX Runtime) and the program of the card agree."""
    zoo("build", TOWERS, "--variant", "fp32", "--out", "built", "--offline")
    folder = zoo.here / "built" / TOWERS
    (program,) = code_blocks((folder / "README.md").read_text(), "python")
    saving_program = f"{program}picture.save('three.png')"
    printed = subprocess.check_output([sys.executable, "-c", saving_program], cwd=folder, text=True)
    labels_and_scores = [line.rpartition(" ")[::2] for line in printed.splitlines()]
    labels = ("a three", "a seven", "an even number")
    assert labels_and_scores[0][0] == "a three" and {label for label, _ in labels_and_scores} == {
        *labels
    }
    for source in (TOWERS, folder):
        (record,) = zoo.json("run", source, "--labels", ", ".join(labels), folder / "three.png")
        assert [answer["label"] for answer in record["answers"]] == [
            label for label, _ in labels_and_scores
        ]
        for answer, (_, score) in zip(record["answers"], labels_and_scores, strict=True):
            assert abs(answer["score"] - float(score)) <= SCORE_TOLERANCE


def test_features_are_written_to_files(zoo):
    (record,) = zoo.json("run", "dinov3_vits16", "--weights", "random", "--out", "made")
    assert record["answers"] == []
    tokens, pooled = (np.load(zoo.here / file) for file in record["files"])
    assert tokens.shape == (201, 384) and np.array_equal(pooled, tokens[0])
    assert (
        "exists already"
        in zoo("run", "dinov3_vits16", "--weights", "random", "--out", "made", code=2).error
    )


def test_pictures_with_the_same_name_have_separate_files(zoo):
    """Names that differ in case only get numbers. All files are written or none."""
    names = ["cat.png", "a/cat.jpg", "a/Cat.png", "cat-2.png"]
    (zoo.here / "a").mkdir()
    for turn, name in enumerate(names):
        photograph().rotate(90 * turn).crop((0, 0, 30 + turn, 40)).save(zoo.here / name)
    records = zoo.json("run", "depth_digits", *names, "--out", "made")
    stems = ("cat", "cat-2", "Cat-3", "cat-2-2")
    assert [record["files"] for record in records] == [[f"made/{stem}-depth.png"] for stem in stems]
    for turn, stem in enumerate(stems):
        with Image.open(zoo.here / f"made/{stem}-depth.png") as image:
            assert image.size == (30 + turn, 40)
    (zoo.here / "made/cat-depth.png").unlink()
    error = zoo("run", "depth_digits", *names, "--out", "made", code=2).error
    assert "cat-2-depth.png exists already" in error
    assert not (zoo.here / "made/cat-depth.png").exists()


def test_examples_of_the_readme(zoo):
    """The commands in README.md print the text below them, up to the third digit of a score."""
    Image.fromarray(split_digits()[1].images[0]).save(zoo.here / "digit.png")
    photograph().save(zoo.here / "cat.png")
    (block,) = code_blocks(README.read_text(), "text")
    examples = re.findall(r"^\$ zoo (.*)\n((?:(?!\$).*\n)+)", block, re.MULTILINE)
    assert len(examples) == 2
    for command, printed in examples:
        actual = "".join(
            f"{line.rstrip()}\n" for line in zoo(*shlex.split(command)).out.splitlines()
        )
        assert re.sub(r"(0\.\d\d)\d+", r"\1", actual) == re.sub(r"(0\.\d\d)\d+", r"\1", printed)


def test_an_unreadable_picture_does_not_stop_the_others(zoo):
    """The error names it, and the others are answered."""
    for name in ("a.png", "c.png"):
        photograph().save(zoo.here / name)
    Image.fromarray(np.zeros((8, 8), np.float32)).save(zoo.here / "b.tiff")
    (zoo.here / "d.jpg").write_bytes(b"no")
    printed = zoo("run", "vit_digits", "a.png", "b.tiff", "c.png", "d.jpg", code=1)
    assert "a.png" in printed.out and "c.png" in printed.out
    assert "error: b.tiff: got a picture" in printed.err and "'d.jpg' is no picture" in printed.err
    records = zoo.json("run", "vit_digits", "a.png", "b.tiff", "c.png", code=1)
    assert [record["picture"] for record in records] == ["a.png", "c.png", "b.tiff"]
    assert len(records[1]["answers"]) == 5 and "32-bit numbers" in records[2]["error"]
    assert "32-bit numbers" in zoo("run", "vit_digits", "b.tiff", code=2).err
