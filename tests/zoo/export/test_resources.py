"""What is said before an export starts that will take long."""

import re

import pytest

import zoo
from zoo.export.request import Options, read_request
from zoo.export.resources import check_resources


class Notes:
    """Progress that keeps what it is told."""

    def __init__(self):
        self.told = []

    def note(self, text):
        self.told.append(text)


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("vit_digits", {"size": (224, 224)}, "784 times the patches .* 614,656 times as long"),
        ("dinov3_vits16", {"size": (448, 1792)}, "16 times the patches .* 256 times as long"),
        ("dinov3_vits16", {"size": (448, 448)}, None),
        ("dinov3_vits16", {"size": "dynamic"}, None),
        ("dinov3_vits16", {}, None),
        ("dinov3_convnext_tiny", {"size": (1792, 1792)}, None),  # has no attention
        ("vit_digits", {"size": (224, 224), "verify": False}, None),
    ],
)
def test_many_patches_are_told(name, options, told, tmp_path):
    notes = Notes()
    check_resources(read_request(zoo.info(name), Options(out=tmp_path, **options)), notes)
    found = [note for note in notes.told if "patches" in note]
    assert [bool(re.search(told or "", note)) for note in found] == [True] * (told is not None)
