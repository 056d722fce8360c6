"""Networks whose parts are published in separate files, and how their files are joined.

Meta publishes heads without a backbone:

- Classifiers of images: `hub/classifiers.py` of facebookresearch/dinov2 and /dinov3. A joined
  checkpoint has the tensor names of the module that torch.hub returns.
- Classifiers of patches: `notebooks/semantic_segmentation.ipynb` of facebookresearch/dinov2. Their
  heads have the tensor names of mmsegmentation.
- dino.txt: `hub/dinotxt.py` of facebookresearch/dinov3. One file contains the head of the image
  tower and the complete text tower.

Google publishes each of TIPS's two towers in an `.npz` file of its own. The name of the file of the
text tower ends in `_text.npz`, that of the image tower in `_vision.npz`. The joined keys have the
names that transformers uses for both towers in one file.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from weights.errors import WeightsNotFound
from weights.files import Checkpoint
from weights.namings.tower_names import IMAGES, TEXTS
from weights.tensors import LazyTensor

HEAD_FILE_NAME = re.compile(
    r"(?P<backbone>.+?)((_imagenet1k|_ade20k|_voc2012)?_(linear4?|ms)_head|"
    r"_dinotxt_vision_head_and_text_encoder)(-[0-9a-f]{8,64})?\.pth"
)
"""Pattern of the file name of a head: the name of its backbone and an ending."""


SEGMENTER_PREFIX = "decode_head."
"""Prefix of the keys of a classifier of patches."""

DINOTXT_PREFIXES = ("visual_model.head.", "text_model.", "logit_scale")
"""Prefixes of the keys of dino.txt."""

DINOTXT_BACKBONE = "visual_model.backbone."
"""Prefix of the backbone's keys in the complete dino.txt network."""

TEMPERATURE = "temperature"

FILE_ENDINGS = {TEXTS: "_text.npz", IMAGES: "_vision.npz"}


def find_first_files(folder: Path) -> list[Path]:
    """Return the files in a folder that are opened together with another file: heads without a
    backbone, and text towers whose image tower is in the folder.

    Heads come first. Each kind is sorted by name.
    """
    heads = [path for path in sorted(folder.glob("*.pth")) if HEAD_FILE_NAME.fullmatch(path.name)]
    texts = sorted(folder.glob("*" + FILE_ENDINGS[TEXTS]))
    return [*heads, *filter(find_vision_tower, texts)]


def strip_shared_prefix(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint of a head without the modules with which all of its tensor names begin,
    such as `module.`.

    Modules are removed until the names are those of a head without a backbone. If that is never so,
    return the checkpoint unchanged.
    """
    tensors = dict(checkpoint.tensors)
    while True:
        stripped = replace(checkpoint, tensors=tensors)
        first = {key.partition(".")[0] for key in tensors}
        if is_head_alone(stripped):
            return stripped
        if len(first) != 1 or any("." not in key for key in tensors):
            return checkpoint
        tensors = {key.partition(".")[2]: tensor for key, tensor in tensors.items()}


def is_head_alone(checkpoint: Checkpoint) -> bool:
    """Return True if the tensor names of a checkpoint are those of a head without a backbone: of a
    classifier of patches, of dino.txt, or of a single linear layer (`weight` and `bias`)."""
    is_segmenter_head = bool(checkpoint.tensors) and all(
        key.startswith(SEGMENTER_PREFIX) for key in checkpoint.tensors
    )
    return (
        is_segmenter_head
        or is_dinotxt_head(checkpoint)
        or set(checkpoint.tensors) == {"weight", "bias"}
    )


def is_dinotxt_head(checkpoint: Checkpoint) -> bool:
    """Return True if the tensor names of a checkpoint are those of dino.txt without its
    backbone."""
    return bool(checkpoint.tensors) and all(
        key.startswith(DINOTXT_PREFIXES) for key in checkpoint.tensors
    )


def find_backbone_file(head: Path) -> Path:
    """Return the path of the file of a head's backbone.

    It lies in the same folder. If the name of the head begins with `dinov2_vits14`, for example,
    that of the backbone begins with `dinov2_vits14_pretrain`.

    **Raises** `WeightsNotFound` unless there is exactly one such file.
    """
    name_match = HEAD_FILE_NAME.fullmatch(head.name)
    name = f"{name_match['backbone']}_pretrain" if name_match else ""
    backbone_files = [
        path for path in sorted(head.parent.glob("*.pth")) if path.name.startswith(name)
    ]
    if not name_match or len(backbone_files) != 1:
        expected = f"{name}.pth" if name_match else "BACKBONE_pretrain.pth"
        name_advice = "" if name_match else ", and rename the head to BACKBONE_linear_head.pth"
        raise WeightsNotFound(
            f"{head} is a head without its backbone ({len(backbone_files) if name_match else 'no'} "
            f"file of a backbone in its folder): put exactly one {expected} into the folder"
            f"{name_advice}."
        )
    return backbone_files[0]


def join_head_to_backbone(head: Checkpoint, backbone: Checkpoint) -> Checkpoint:
    """Return one checkpoint with the tensors of a head and of its backbone, by the names that the
    joined network has. Its path is the folder of both files."""
    if is_dinotxt_head(head):
        backbone_tensors = {
            DINOTXT_BACKBONE + key: tensor for key, tensor in backbone.tensors.items()
        }
        return _join_files(head, backbone, {**backbone_tensors, **head.tensors})
    tensors = {
        key if key.startswith(SEGMENTER_PREFIX) else f"linear_head.{key}": tensor
        for key, tensor in head.tensors.items()
    }
    return _join_files(head, backbone, {**backbone.tensors, **tensors})


def _join_files(
    head: Checkpoint, backbone: Checkpoint, tensors: Mapping[str, LazyTensor]
) -> Checkpoint:
    """Return the checkpoint of these tensors, which are those of two files. Its path is the folder
    of the head."""
    files, kind = (*backbone.files, *head.files), "PyTorch archives of a backbone and a head"
    return Checkpoint(head.path.parent, kind, files, tensors)


def find_vision_tower(text: Path) -> Path | None:
    """Return the file of the image tower that belongs to the file of a text tower.

    Return None if `text` does not have the name of a text tower's file, or if the other file does
    not exist.
    """
    if not text.name.endswith(FILE_ENDINGS[TEXTS]):
        return None
    path = text.with_name(text.name.removesuffix(FILE_ENDINGS[TEXTS]) + FILE_ENDINGS[IMAGES])
    return path if path.is_file() else None


def join_towers(text: Checkpoint, vision: Checkpoint) -> Checkpoint:
    """Return one checkpoint with the tensors of a text tower and of an image tower, whose names get
    a prefix for each tower (`TEXTS`, `IMAGES`). The temperature of the pair gets none. Its path is
    their folder."""
    tensors = {IMAGES + key: tensor for key, tensor in vision.tensors.items()}
    # The temperature of the pair is in the file of the text tower.
    tensors |= {
        key if key == TEMPERATURE else TEXTS + key: tensor for key, tensor in text.tensors.items()
    }
    if TEMPERATURE in tensors:
        tensors[TEMPERATURE] = _as_scalar(tensors[TEMPERATURE])
    return Checkpoint(
        text.path.parent,
        "numpy archives of two towers",
        (*vision.files, *text.files),
        tensors,
    )


def _as_scalar(tensor: LazyTensor) -> LazyTensor:
    """Return a tensor with a single number as a tensor without axes. Other tensors are returned
    unchanged."""
    if math.prod(tensor.shape) != 1:
        return tensor
    return replace(tensor, shape=(), read=lambda: tensor.read().reshape(()))
