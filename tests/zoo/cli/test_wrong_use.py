"""Wrong use of commands: one sentence as the error, exit code 2, and nothing is written."""

import shlex

import pytest

from tests import folders
from zoo.images.photograph import photograph

WRONG_USE = {
    "exprt": "Did you mean 'export'",
    "pull": "MODEL",
    # Models
    "list dinov4": "did you mean dinov2",
    "build vit_digit": "there is no model called 'vit_digit': did you mean vit_digits",
    "export --weights random": "needs the name of a model",
    # Values
    "export dinov3_vits16 --opset 16": "17 to 26",
    "export dinov3_vits16 --attention-layout 5d": "'5d' is not one of '4d', '3d'.",
    "build vit_digits --size 9": "size 9x9 does not fit vit_digits",
    "build vit_digits --variant fp32,fp8": "--variant fp8 is not known: choose from fp32, fused",
    "build vit_digits --jobs x": "--jobs",
    "show vit_digits cat.png --size large": "--size large is no size",
    "show vit_digits cat.png --patch one": "--patch one is no patch",
    "bench alone.onnx --against torch": "architecture",
    "push empty --repo network": "write OWNER/NAME",
    "export vit_digits --precision int8 --calibrate empty": "empty contains no picture that can be",
    "export vit_digits --precision int8 --calibrate one": "one contains one picture that",
    "export vit_digits --precision int8 --calibrate two": "a.png' is no picture that",
    "export vit_digits --precision int8 --scales row --target onnxruntime==1.23.2": "opset 22",
    "export vit_digits --precision int8 --calibrate one --target onnxruntime>=1.23.1": "opset 22",
    "export vit_digits --scales row": "scales row is about int8, which is not what is asked",
    "build vit_digits --calibrate one --scales row": "--scales row and --calibrate are two ways",
    "export vit_digits --calibrate one": "calibrate one is about int8, which is not what is asked",
    # Weights
    "export dinov3_vits16 --weights random:x": "no seed",
    "export dinov3_vits16 --offline": "`zoo info dinov3_vits16` says where to get it",
    "export --weights no.pth": "no.pth does not exist",
    "build vit_digits dinov3_vits16 --weights a.pth": "a.pth is one checkpoint for 2 models",
    "verify empty --weights random": "--weights",
    # Missing and wrong files
    "verify nothing.onnx": "does not exist",
    "verify empty": "has no manifest.json",
    "verify alone.onnx": "is missing",
    "bench no.onnx": "is no file",
    "bench broken.onnx": "does not run",
    "show vit_digits no.png": "'no.png' is no picture that can be read",
    "run vit_digits broken.png": "'broken.png' is no picture that can be read (its first bytes",
    "run none.onnx": "there is no file none.onnx",
    "run alone.onnx": "alone.onnx has no manifest",
    "run dinov9": "there is no model called 'dinov9'",
    "run alone.onnx --weights random": "has no effect here",
    # Texts
    "run vit_digits --labels 'a cat'": "vit_digits has no tokenizer here",
    "run siglip_digits_dual --labels 'a cat' --weights random": "has no tokenizer here",
    "run siglip_digits_text --labels 'a cat'": "--labels is for a model with towers",
    "run siglip_digits_dual": "name what may be in pictures with --labels",
    "export siglip_digits_text --size 64": "takes texts, which have no size",
    "export siglip_digits_dual --input uint8": "input uint8 is for models of images",
    "export siglip_digits_text --layers 1": "gives no hidden states",
    "export siglip_digits_text --target portable": "give batch 1",
    # Paths of outputs
    "export --out a.onnx": "name a folder",
    "show vit_digits cat.png --out x.gif": "--out x.gif is no picture",
    "site empty --out diary --force": "that belong to no site (diary.txt)",
    "site empty --out mine.md": "is no folder",
}
"""Command lines, and words of their error."""

FILES = {
    "alone.onnx": folders.mean_of_pixels(1),
    "broken.onnx": b"no model",
    "mine.md": b"my own words",
    "broken.png": b"nothing",
    "diary/diary.txt": b"mine",
    "empty/.hidden": b"",
    "one/a.png": b"no picture",
    **{"two/a.png": b"no picture", "two/b.png": b"no picture"},
}


@pytest.fixture
def unchanged_folder(zoo):
    """Write the files that commands read, and check afterwards that none was added or removed."""
    folders.write(zoo.here, FILES)
    photograph().save(zoo.here / "cat.png")
    before = sorted(zoo.here.rglob("*"))
    yield zoo.here
    assert [path for path in sorted(zoo.here.rglob("*")) if path.name != "artifacts"] == before


@pytest.mark.parametrize("line", WRONG_USE)
def test_wrong_use_is_one_sentence(line, unchanged_folder, zoo):
    printed = zoo(*shlex.split(line), code=2)
    assert printed.out == ""
    # The error is last. Lines before it are the progress of the command.
    assert printed.err.endswith(f"{printed.error}\n")
    assert printed.error.endswith((".", "?"))
    assert WRONG_USE[line] in printed.error
