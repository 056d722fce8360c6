"""A head that Meta publishes by itself, and the backbone that it belongs on.

Of pictures: `hub/classifiers.py` of facebookresearch/dinov2 and /dinov3. Together they are called
what the module is that torch.hub makes of them. Of patches: `notebooks/semantic_segmentation.ipynb`
of facebookresearch/dinov2, whose heads have the names of mmsegmentation. For texts:
`hub/dinotxt.py` of facebookresearch/dinov3, where the head of the network for images and the whole
one for texts are in a file.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from weights.errors import WeightsNotFound
from weights.files import Checkpoint
from weights.tensors import LazyTensor

NAME = re.compile(
    r"(?P<backbone>.+?)((_imagenet1k|_ade20k|_voc2012)?_(linear4?|ms)_head|"
    r"_dinotxt_vision_head_and_text_encoder)(-[0-9a-f]{8,64})?\.pth"
)
"""What such a file is called, behind the name of its backbone."""


OF_PATCHES = "decode_head."
"""How the keys of a classifier of patches begin."""

WITH_TEXTS = ("visual_model.head.", "text_model.", "logit_scale")
"""How those of dino.txt begin."""

WITHIN = "visual_model.backbone."
"""How those of its backbone begin in the whole network."""


def heads_in(folder: Path) -> list[Path]:
    """The files in a folder that are called as a classifier alone is."""
    return [path for path in sorted(folder.glob("*.pth")) if NAME.fullmatch(path.name)]


def bare(checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint without what all of its names begin with, if it is a head alone."""
    tensors = dict(checkpoint.tensors)
    while True:
        stripped = replace(checkpoint, tensors=tensors)
        first = {key.partition(".")[0] for key in tensors}
        if is_head(stripped):
            return stripped
        if len(first) != 1 or any("." not in key for key in tensors):
            return checkpoint
        tensors = {key.partition(".")[2]: tensor for key, tensor in tensors.items()}


def is_head(checkpoint: Checkpoint) -> bool:
    """Whether a file holds a head alone."""
    of_patches = bool(checkpoint.tensors) and all(
        key.startswith(OF_PATCHES) for key in checkpoint.tensors
    )
    return of_patches or is_with_texts(checkpoint) or set(checkpoint.tensors) == {"weight", "bias"}


def is_with_texts(checkpoint: Checkpoint) -> bool:
    """Whether a file holds dino.txt without its backbone."""
    return bool(checkpoint.tensors) and all(
        key.startswith(WITH_TEXTS) for key in checkpoint.tensors
    )


def backbone_of(head: Path) -> Path:
    """The file of its backbone beside a classifier's. **Raises** `WeightsNotFound`."""
    named = NAME.fullmatch(head.name)
    name = f"{named['backbone']}_pretrain" if named else ""
    beside = [path for path in sorted(head.parent.glob("*.pth")) if path.name.startswith(name)]
    if not named or len(beside) != 1:
        expected = f"{name}.pth" if named else "BACKBONE_pretrain.pth"
        called = "" if named else ", under the name BACKBONE_linear_head.pth"
        raise WeightsNotFound(
            f"{head} is a head without its backbone ({len(beside) if named else 'no'} "
            f"file of it beside it): put it beside one {expected}{called}."
        )
    return beside[0]


def on_backbone(head: Checkpoint, backbone: Checkpoint) -> Checkpoint:
    """A head and its backbone as one checkpoint, whose path is their folder."""
    if is_with_texts(head):
        inside = {WITHIN + key: tensor for key, tensor in backbone.tensors.items()}
        return _joined(head, backbone, {**inside, **head.tensors})
    tensors = {
        key if key.startswith(OF_PATCHES) else f"linear_head.{key}": tensor
        for key, tensor in head.tensors.items()
    }
    return _joined(head, backbone, {**backbone.tensors, **tensors})


def _joined(
    head: Checkpoint, backbone: Checkpoint, tensors: Mapping[str, LazyTensor]
) -> Checkpoint:
    files, kind = (*backbone.files, *head.files), "PyTorch archives of a backbone and a head"
    return Checkpoint(head.path.parent, kind, files, tensors)
