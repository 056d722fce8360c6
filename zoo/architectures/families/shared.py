"""Sizes, preprocessing, files and licences that several families share."""

import json
from functools import partial
from importlib.resources import files

from weights.containers.safetensors import TENSORS
from weights.sources.hub import HubFile
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.entry import Licence
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.images.preprocessing import CENTRED_PIXELS, IMAGENET_PIXELS, Preprocessing

Dimensions = tuple[int, int, int, int]  # dim, depth, heads and hidden of a vision transformer
TINY = (192, 12, 3, 768)
SMALL = (384, 12, 6, 1536)
BASE = (768, 12, 12, 3072)
LARGE = (1024, 24, 16, 4096)
SO400M = (1152, 27, 16, 4304)
GIANT = (1536, 40, 24, 4096)

CONVNEXT_TINY = ConvNeXtConfig(depths=(3, 3, 9, 3), dims=(96, 192, 384, 768))
CONVNEXT_SMALL = ConvNeXtConfig(depths=(3, 3, 27, 3), dims=(96, 192, 384, 768))
CONVNEXT_BASE = ConvNeXtConfig(depths=(3, 3, 27, 3), dims=(128, 256, 512, 1024))

CLASS_TOKEN = "the class token"
IMAGENET = "imagenet1k.txt"
"""File with the classes of ImageNet-1k in the order of all published classifiers, which is that of
WordNet's numbers."""

MEAN_OF_MAP = "the mean of the last map, normed"

patches_of_14 = partial(ViTConfig, norm_eps=1e-6, patch_size=14, rope=None)
plain_vit = partial(ViTConfig, layer_scale=None, registers=0, mask_token=False, rope=None)

imagenet = partial(Preprocessing, mean=IMAGENET_PIXELS[0], std=IMAGENET_PIXELS[1])
centred = partial(Preprocessing, mean=CENTRED_PIXELS[0], std=CENTRED_PIXELS[1])

_PINNED = json.loads((files("zoo") / "data" / "equimo_archives.json").read_text(encoding="utf-8"))

DIGESTS: dict[str, str] = _PINNED["sha256"]
"""sha256 of Equimo's archives by name, for the pinned revision, as equimo 2.7.0 records them."""


def equimo_files(identifier: str) -> tuple[HubFile, ...]:
    """Return the file on the hub, at the pinned revision, of Equimo's archive with the name
    `identifier`. The tuple is empty if Equimo has no such archive."""
    if identifier not in DIGESTS:
        return ()
    family = identifier.partition("_")[0]
    archive = f"models/default/{family}/{identifier}.tar.lz4"
    file = HubFile(_PINNED["repository"], archive, _PINNED["revision"], DIGESTS[identifier])
    return (file,)


def safetensors(repository: str) -> HubFile:
    """Return the safetensors file of a repository on the hub, which transformers or timm reads."""
    return HubFile(repository, TENSORS)


def class_names(data: str) -> tuple[str, ...]:
    """Return the names of a data set's classes, in the order in which published networks number
    them. `data` is the name of a file in `zoo/data`, without `.txt`."""
    return tuple((files("zoo") / "data" / f"{data}.txt").read_text(encoding="utf-8").splitlines())


def mit(source: str, section: str) -> Licence:
    """Return the MIT License of the repository `source` on GitHub, such as `facebookresearch/deit`.

    `section` is the part of its `README.md` that links to the weights, such as `#models`.
    """
    page = f"https://github.com/{source}"
    return Licence("MIT License", "mit.txt", f"{page}/blob/main/LICENSE", page + section)


def apache(source: str, download: str) -> Licence:
    """Return the Apache License of the repository `source` on GitHub.

    `download` is the page on GitHub that links to the weights, without `https://github.com/`.
    """
    page = f"https://github.com/{source}/blob/main/LICENSE"
    return Licence("Apache License 2.0", "apache-2.0.txt", page, f"https://github.com/{download}")
