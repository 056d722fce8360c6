"""`zoo run`: what models say of pictures, by name, from a checkpoint, a file and a folder."""

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
from zoo.data.digits.data import split_digits
from zoo.images.photograph import photograph

README = Path(__file__).parents[3] / "README.md"
TOWERS = "siglip_digits_dual"

NEAR = 1e-5
"""Of shares; JAX and ONNX Runtime differ by 1e-6 there."""


@pytest.mark.full
def test_the_same_answers_wherever_a_model_lies(zoo):
    """Best first, the five best, of two pictures, the bundled photograph without one."""
    zoo("export", "vit_digits", "--opset", 18)
    zoo("build", "vit_digits", "--variant", "fp32", "--out", "built")
    photograph().rotate(90).save(zoo.here / "turned.png")
    model = package.from_pretrained("vit_digits")
    pixels = package.preprocess(model, [photograph(), photograph().rotate(90)])
    logits = np.stack([np.asarray(model(each).logits) for each in pixels])
    shares = torch.from_numpy(logits).softmax(-1).numpy()
    for place in ("vit_digits", "vit_digits-opset18.onnx", "built/vit_digits"):
        (first,) = zoo.json("run", place)
        (second,) = zoo.json("run", place, "turned.png")
        assert [first["picture"], second["picture"]] == ["chelsea.png", "turned.png"]
        for found, wanted in ((first, shares[0]), (second, shares[1])):
            order = [int(answer["label"]) for answer in found["answers"]]
            assert order == np.argsort(-wanted)[:5].tolist() and set(found) == {
                "picture",
                "answers",
            }
            for answer in found["answers"]:
                assert abs(answer["score"] - wanted[int(answer["label"])]) <= NEAR
    told = zoo("run", "built/vit_digits").out.splitlines()
    assert told[0].strip() == "chelsea.png" and told[2].split()[0] == str(shares[0].argmax())
    (same,) = package.load(zoo.here / "built/vit_digits").answer(photograph())
    assert (
        same.answers
        == package.load("vit_digits", folder="built/vit_digits").answer([photograph()])[0].answers
    )
    assert "patches an image" in zoo("show", "built/vit_digits", "turned.png").out


@pytest.mark.full
def test_labels_of_a_model_that_the_package_brings(zoo):
    """In JAX by its name, and in ONNX Runtime in a folder; the program of its card runs."""
    zoo("build", TOWERS, "--variant", "fp32", "--out", "built", "--offline")
    folder = zoo.here / "built" / TOWERS
    (program,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    drawn = f"{program}picture.save('three.png')"
    told = subprocess.check_output([sys.executable, "-c", drawn], cwd=folder, text=True)
    wanted = [line.rpartition(" ")[::2] for line in told.splitlines()]
    labels = ("a three", "a seven", "an even number")
    assert wanted[0][0] == "a three" and {label for label, _ in wanted} == {*labels}
    for place in (TOWERS, folder):
        (found,) = zoo.json("run", place, "--labels", ", ".join(labels), folder / "three.png")
        assert [each["label"] for each in found["answers"]] == [label for label, _ in wanted]
        for each, (_, score) in zip(found["answers"], wanted, strict=True):
            assert abs(each["score"] - float(score)) <= NEAR


def test_features_are_files(zoo):
    (found,) = zoo.json("run", "dinov3_vits16", "--weights", "random", "--out", "made")
    assert found["answers"] == []
    tokens, pooled = (np.load(zoo.here / file) for file in found["files"])
    assert tokens.shape == (201, 384) and np.array_equal(pooled, tokens[0])
    assert (
        "exists already"
        in zoo("run", "dinov3_vits16", "--weights", "random", "--out", "made", code=2).error
    )


def test_pictures_with_one_name_have_files_of_their_own(zoo):
    """All of them or none, whatever the letters are that the names have."""
    names = ["cat.png", "a/cat.jpg", "a/Cat.png", "cat-2.png"]
    (zoo.here / "a").mkdir()
    for turn, name in enumerate(names):
        photograph().rotate(90 * turn).crop((0, 0, 30 + turn, 40)).save(zoo.here / name)
    found = zoo.json("run", "depth_digits", *names, "--out", "made")
    stems = ("cat", "cat-2", "Cat-3", "cat-2-2")
    assert [each["files"] for each in found] == [[f"made/{stem}-depth.png"] for stem in stems]
    for turn, stem in enumerate(stems):
        with Image.open(zoo.here / f"made/{stem}-depth.png") as drawn:
            assert drawn.size == (30 + turn, 40)
    (zoo.here / "made/cat-depth.png").unlink()
    said = zoo("run", "depth_digits", *names, "--out", "made", code=2).error
    assert "cat-2-depth.png exists already" in said
    assert not (zoo.here / "made/cat-depth.png").exists()


def test_what_readme_shows(zoo):
    """Its lines print what they say, to the third digit of a score."""
    Image.fromarray(split_digits()[1].images[0]).save(zoo.here / "digit.png")
    photograph().save(zoo.here / "cat.png")
    (block,) = re.findall(r"```text\n(\$ zoo run.*?)```", README.read_text(), re.DOTALL)
    shown = re.findall(r"^\$ zoo (.*)\n((?:(?!\$).*\n)+)", block, re.MULTILINE)
    assert len(shown) == 2
    for command, printed in shown:
        told = "".join(f"{line.rstrip()}\n" for line in zoo(*shlex.split(command)).out.splitlines())
        assert re.sub(r"(0\.\d\d)\d+", r"\1", told) == re.sub(r"(0\.\d\d)\d+", r"\1", printed)


def test_one_picture_that_cannot_be_read_stops_no_others(zoo):
    """It is named, and the others are answered; where there is no other, nothing is."""
    for name in ("a.png", "c.png"):
        photograph().save(zoo.here / name)
    Image.fromarray(np.zeros((8, 8), np.float32)).save(zoo.here / "b.tiff")
    (zoo.here / "d.jpg").write_bytes(b"no")
    said = zoo("run", "vit_digits", "a.png", "b.tiff", "c.png", "d.jpg", code=1)
    assert "a.png" in said.out and "c.png" in said.out
    assert "error: b.tiff: got a picture" in said.err and "'d.jpg' is no picture" in said.err
    told = zoo.json("run", "vit_digits", "a.png", "b.tiff", "c.png", code=1)
    assert [each["picture"] for each in told] == ["a.png", "c.png", "b.tiff"]
    assert len(told[1]["answers"]) == 5 and "32-bit numbers" in told[2]["error"]
    assert "32-bit numbers" in zoo("run", "vit_digits", "b.tiff", code=2).err
