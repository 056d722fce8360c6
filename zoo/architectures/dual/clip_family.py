"""Published models of CLIP (Radford et al., 2021, arXiv:2103.00020): vision transformers,
transformers for texts, and dual encoders of both, for classes that are described in words. They are
OpenAI's, and LAION's, who trained the same networks with open_clip (Cherti et al., 2022,
arXiv:2212.07143).

CLIP also has a norm before the blocks, and patches without a bias. The final norm is applied to the
class token only, so that `last_hidden_state` is not normalised, as in transformers. `pooler_output`
is a linear projection of that token, or of the token that ends the words. transformers' classes
with a projection call it `image_embeds` and `text_embeds`. OpenAI's networks have the quick GELU,
LAION's the exact one.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from weights.containers import pth
from weights.namings import clip_names
from zoo.architectures.dual.dual_config import DualConfig, TextConfig
from zoo.architectures.entry import Licence, ModelInfo, Publisher, published_namings
from zoo.architectures.families import shared
from zoo.architectures.parts.layer_options import Activation, LearnedPositions
from zoo.images.preprocessing import Preprocessing

OPENAI_PAGE = "https://github.com/openai/CLIP/blob/main"
LAION_PAGE = "https://github.com/mlfoundations/open_clip/blob/main/docs/PRETRAINED.md"
OPENAI = Publisher(
    source="openai/CLIP",
    licence=Licence(
        "MIT License", "mit.txt", f"{OPENAI_PAGE}/LICENSE", f"{OPENAI_PAGE}/model-card.md"
    ),
    papers=("2103.00020",),
    repository="{}",
)
LAION = Publisher(
    source="mlfoundations/open_clip",
    # LAION states its terms on each model's page. open_clip's list links to these pages.
    licence=Licence("MIT License", "mit.txt", LAION_PAGE, LAION_PAGE),
    papers=("2103.00020", "2212.07143"),
    repository="{}",
)


class ClipSizes(NamedTuple):
    """Sizes of both networks: their dimensions, channels of their vectors, and parameters of the
    network for texts."""

    vision: shared.Dimensions
    words: shared.Dimensions
    projection: int
    parameters: int


SIZES = {
    "b": ClipSizes(shared.BASE, (512, 12, 8, 2048), 512, 63_428_096),
    "l": ClipSizes(shared.LARGE, (768, 12, 12, 3072), 768, 123_650_304),
    "h": ClipSizes((1280, 32, 16, 5120), (1024, 24, 16, 4096), 1024, 354_032_640),
}

# name, size, patch, pixels, parameters, repository, OpenAI's file
VARIANTS = (
    ("vitb32", "b", 32, 224, 87_849_216, "openai/clip-vit-base-patch32", "ViT-B-32.pt"),
    ("vitb16", "b", 16, 224, 86_192_640, "openai/clip-vit-base-patch16", "ViT-B-16.pt"),
    ("vitl14", "l", 14, 224, 303_966_208, "openai/clip-vit-large-patch14", "ViT-L-14.pt"),
    (
        *("vitl14_336", "l", 14, 336, 304_293_888),
        *("openai/clip-vit-large-patch14-336", "ViT-L-14-336px.pt"),
    ),
    ("vitb32_laion2b", "b", 32, 224, 87_849_216, "laion/CLIP-ViT-B-32-laion2B-s34B-b79K", ""),
    ("vitl14_laion2b", "l", 14, 224, 303_966_208, "laion/CLIP-ViT-L-14-laion2B-s32B-b82K", ""),
    ("vith14_laion2b", "h", 14, 224, 632_076_800, "laion/CLIP-ViT-H-14-laion2B-s32B-b79K", ""),
)

OPENAI_PREPROCESSING = Preprocessing(
    mean=(0.48145466, 0.4578275, 0.40821073),
    std=(0.26862954, 0.26130258, 0.27577711),
    resample="bicubic",
)
# One of LAION's networks takes numbers from -1 to 1, according to `pretrained.py` of open_clip.
CENTRED = {"vitl14_laion2b": shared.centred(resample="bicubic")}


def _models(
    variant: str, size: str, patch: int, pixels: int, parameters: int, repository: str, file: str
) -> Iterator[ModelInfo]:
    """Yield the registry's rows of one CLIP: its network for pictures, its network for texts, and
    the dual encoder.

    **Arguments:**

    - `variant`: the end of the models' names, such as `vitb32` for `clip_vitb32`.
    - `size`: a key of `SIZES`.
    - `patch`, `pixels`: the sides of a patch and of a picture.
    - `parameters`: the number of parameters of the network for pictures.
    - `repository`: the repository on the hub, such as `openai/clip-vit-base-patch32`.
    - `file`: the name of OpenAI's file; empty for LAION's networks.
    """
    towers, name = SIZES[size], f"clip_{variant}"
    activation: Activation = "quick_gelu" if file else "gelu"
    vision = shared.plain_vit(
        *towers.vision,
        activation=activation,
        pre_norm=True,
        pooled_norm=True,
        patch_size=patch,
        patch_bias=False,
        positions=LearnedPositions(grid=pixels // patch),
        projection=towers.projection,
    )
    words = TextConfig(
        *towers.words,
        projection=towers.projection,
        vocabulary=49_408,
        tokens=77,
        activation=activation,
        norm_eps=1e-5,
        causal=True,
        pool="end",
        head_bias=False,
    )
    publisher = OPENAI if file else LAION
    dual = DualConfig(vision, words, bias=False)
    preprocessing = CENTRED.get(variant, OPENAI_PREPROCESSING)
    vision_model = ModelInfo(
        name=name,
        family="clip",
        config=vision,
        published=published_namings(
            vision,
            *(clip_names.CLIP_VIT, clip_names.BARE_VIT, clip_names.CLASSIFIER_VIT),
            clip_names.ORIGINAL_VIT,
        ),
        preprocessing=replace(preprocessing, size=(pixels, pixels), resize=pixels),
        publisher=publisher,
        checkpoint=file,
        **publisher.hub_fields(repository, pth.TENSORS),
        parameters=parameters,
        pooler="a linear layer on the normed class token",
    )
    yield vision_model
    yield replace(
        vision_model,
        name=f"{name}_text",
        family="clip_text",
        config=words,
        published=published_namings(
            *(words, clip_names.CLIP_TEXT, clip_names.BARE_TEXT, clip_names.ORIGINAL_TEXT)
        ),
        parameters=towers.parameters,
        pooler="a linear layer on the token that ends the words",
    )
    yield replace(
        vision_model,
        name=f"{name}_dual",
        family="clip_dual",
        config=dual,
        published=published_namings(dual, clip_names.CLIP_DUAL, clip_names.ORIGINAL_DUAL),
        parameters=parameters + towers.parameters + 1,
        pooler="",
    )


MODELS = tuple(
    model for models in zip(*(_models(*row) for row in VARIANTS), strict=True) for model in models
)
