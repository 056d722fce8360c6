"""An export writes while its checkpoint is hashed, and leaves nothing that its digest refuses."""

from dataclasses import replace

import pytest

from weights.errors import MappingError, WrongDigest
from weights.progress import Quiet
from zoo import info
from zoo.export.request import Options, read_request
from zoo.export.run import run_export
from zoo.registry.lookup import MODELS

NAME = "dinov3_vits16"


def export(checkpoint, folder):
    asked = Options(weights=str(checkpoint), out=folder, verify=False)
    return run_export(read_request(info(NAME), asked), Quiet())


def test_a_name_that_promises_another_digest(vits16, tmp_path):
    checkpoint = tmp_path / "weights-08c60483.pth"
    checkpoint.symlink_to(vits16.path)
    with pytest.raises(WrongDigest, match="begins with 08c60483"):
        export(checkpoint, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_digest_of_another_model(vits16, tmp_path, monkeypatch):
    (made,) = export(vits16.path, tmp_path / "first")
    digest = made.manifest.weights.sha256
    other = next(each for each in MODELS.values() if each.digest and each.name != NAME)
    monkeypatch.setitem(MODELS, other.name, replace(other, digest=digest))
    with pytest.raises(MappingError, match=f"is the published file of {other.name}"):
        export(vits16.path, tmp_path / "second")
    assert list((tmp_path / "second").iterdir()) == []
