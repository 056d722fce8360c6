"""The way of a picture's request through the files of `zoo` and `weights`."""

from tests.walks import NETWORK, PICTURE, walk_request


def test_a_picture_is_embedded_in_few_steps(tmp_path):
    """The steps that open the network are counted in a separate part."""
    parts = walk_request("embed", tmp_path).parts
    picture, network = parts[PICTURE], parts[NETWORK]
    assert len(picture.steps) <= 25 and picture.returns <= 10, [*picture.steps]
    assert len(picture.packages.files) <= 12
    assert {"zoo/artifacts/find.py", "zoo/common/runtime.py"} <= network.files - picture.files
    assert {"zoo/images/pictures.py", "zoo/apps/embed/chunks.py"} <= picture.files - network.files
