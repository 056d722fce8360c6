"""A linear classifier that Meta publishes by itself, and the backbone that it belongs on.

Of pictures: `hub/classifiers.py` of facebookresearch/dinov2 and /dinov3. Together they are called
what the module is that torch.hub makes of them. Of patches: `notebooks/semantic_segmentation.ipynb`
of facebookresearch/dinov2, whose heads have the names of mmsegmentation.
"""

import re
from pathlib import Path

from weights.errors import WeightsNotFound
from weights.files import Checkpoint

NAME = re.compile(
    r"(?P<backbone>.+?)(_imagenet1k|_ade20k|_voc2012)?_(linear4?|ms)_head(-[0-9a-f]{8,64})?\.pth"
)
"""What such a file is called, behind the name of its backbone."""


OF_PATCHES = "decode_head."
"""How the keys of a classifier of patches begin."""


def heads_in(folder: Path) -> list[Path]:
    """The files in a folder that are called as a classifier alone is."""
    return [path for path in sorted(folder.glob("*.pth")) if NAME.fullmatch(path.name)]


def is_head(checkpoint: Checkpoint) -> bool:
    """Whether a file holds a classifier alone."""
    of_patches = all(key.startswith(OF_PATCHES) for key in checkpoint.tensors)
    return of_patches or set(checkpoint.tensors) == {"weight", "bias"}


def backbone_of(head: Path) -> Path:
    """The file of its backbone beside a classifier's. **Raises** `WeightsNotFound`."""
    found = NAME.fullmatch(head.name)
    name = f"{found['backbone']}_pretrain" if found else ""
    beside = [path for path in sorted(head.parent.glob("*.pth")) if path.name.startswith(name)]
    if not found or len(beside) != 1:
        wanted = f"{name}.pth" if found else "BACKBONE_pretrain.pth"
        called = "" if found else ", under the name BACKBONE_linear_head.pth"
        raise WeightsNotFound(
            f"{head} is a linear classifier without its backbone ({len(beside) if found else 'no'} "
            f"file of it beside it): put it beside one {wanted}{called}."
        )
    return beside[0]


def on_backbone(head: Checkpoint, backbone: Checkpoint) -> Checkpoint:
    """A classifier and its backbone as one checkpoint, whose path is their folder."""
    tensors = {
        key if key.startswith(OF_PATCHES) else f"linear_head.{key}": tensor
        for key, tensor in head.tensors.items()
    }
    return Checkpoint(
        head.path.parent,
        "PyTorch archives of a backbone and a classifier",
        (*backbone.files, *head.files),
        {**backbone.tensors, **tensors},
    )
