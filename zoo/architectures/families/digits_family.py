"""Models for handwritten digits, whose weights are part of the package.

- `vit_digits`: DINOv3's vision transformer for pictures of 8 x 8 pixels, a classifier of digits.
- `depth_digits`: a network that predicts how near every digit in a scene of 32 x 32 pixels is.
- `boxes_digits`: RF-DETR's network, which finds digits on a canvas of 64 x 64 pixels.
- `siglip_digits_text` and `siglip_digits_dual`: SigLIP 2's networks for pictures of 8 x 8 pixels
  and for sentences about digits.

`notebooks/training` trains them. `zoo/data/README.md` has their results.
"""

from dataclasses import replace
from functools import partial

from weights.namings import depth_names, detection_names, huggingface_names, meta_names
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.detection.detection_config import DecoderConfig, DetectionConfig
from zoo.architectures.dual.dual_config import DualConfig, TextConfig
from zoo.architectures.entry import Licence, ModelInfo, Publisher, published_namings, report_results
from zoo.architectures.families import shared
from zoo.architectures.parts.layer_options import LearnedPositions
from zoo.architectures.vit.vit_config import ViTConfig

LICENCE_PAGE = "https://www.apache.org/licenses/LICENSE-2.0"

DIGITS_CONFIG = ViTConfig(
    *(64, 4, 2, 192), qkv_bias=False, layer_scale=0.1, patch_size=2, mask_token=False, classes=10
)

# For scenes of 32 x 32 pixels, in patches of 8 x 8 pixels.
BACKBONE = replace(DIGITS_CONFIG, patch_size=8, registers=0, pool=None, classes=0)
DIGITS_DEPTH = DepthConfig(BACKBONE, (1, 2, 3, 4), channels=(24, 32, 48, 64), fused=24, hidden=16)

# For canvases of 64 x 64 pixels.
DIGITS_BOXES = DetectionConfig(
    replace(BACKBONE, positions=LearnedPositions(grid=8, antialias=True), rope=None),
    DecoderConfig(64, 2, heads=4, sampling_heads=4, points=4, hidden=128),
    layers=(2, 4),
    windows=2,
    queries=10,
    classes=10,
    groups=1,
    bottlenecks=1,
    narrow=32,
)

DIGITS_VISION = shared.plain_vit(
    *(64, 4, 2, 192),
    activation="gelu_tanh",
    norm_eps=1e-6,
    patch_size=2,
    cls_token=False,
    positions=LearnedPositions(grid=4, cls_token=False),
    pool="attention",
)
DIGITS_WORDS = TextConfig(*(64, 2, 2, 192), projection=64, vocabulary=60, tokens=16)
DIGITS_TOWERS = DualConfig(DIGITS_VISION, DIGITS_WORDS)

_embedded = partial(
    ModelInfo,
    family="digits",
    publisher=Publisher(
        source="notebooks/training, on scikit-learn's copy of UCI's handwritten digits",
        # This is the licence of the weights. The images are not in the package; their licence is in
        # zoo/data/README.md.
        licence=Licence("Apache License 2.0", "apache-2.0.txt", LICENCE_PAGE, download=""),
    ),
    embedded=True,
)

_towers = partial(
    _embedded,
    preprocessing=shared.centred(size=(8, 8)),
    examples=("a three", "a seven", "an even number"),
    checkpoint="siglip_digits.safetensors",
    digest="c958b2cf76132f561f81fc149319f8574171fa2f6eeb45c81225d77b18b12ed8",
)

MODELS = (
    _embedded(
        name="vit_digits",
        purpose="Tells handwritten digits of 8 x 8 pixels apart: small enough to look into.",
        config=DIGITS_CONFIG,
        published=published_namings(DIGITS_CONFIG, meta_names.DINOV3_VIT),
        preprocessing=shared.centred(size=(8, 8), rescale_first=True),
        checkpoint="vit_digits.safetensors",
        digest="bb0ff8d09b1e1d7992c67433f7d8382373cca081fddb228f5669034cd8b56d41",
        is_drawn=True,
        parameters=168_586,
        pooler=shared.CLASS_TOKEN,
        reported=report_results("zoo/data/README.md", "359 held-out digits", classifier=98.6),
    ),
    _embedded(
        name="depth_digits",
        purpose="Says how near every digit in a drawn scene is: small enough to look into.",
        config=DIGITS_DEPTH,
        published=published_namings(DIGITS_DEPTH, depth_names.ON_DINOV3),
        preprocessing=shared.centred(size=(32, 32), rescale_first=True),
        checkpoint="depth_digits.safetensors",
        digest="695953f224f147daac0333b4e0543609dc14d4bf6c868ad1b3fcf04356cf5089",
        parameters=366_797,
    ),
    _embedded(
        name="boxes_digits",
        purpose="Finds and names digits that lie about in a picture: small enough to look into.",
        config=DIGITS_BOXES,
        published=published_namings(DIGITS_BOXES, detection_names.RF_DETR),
        preprocessing=shared.centred(size=(64, 64), rescale_first=True),
        checkpoint="boxes_digits.safetensors",
        digest="925ee0595d60c18ac489f0d71ef608e8591f7a40912f8a587018fb3561956b9b",
        parameters=342_692,
    ),
    _towers(
        name="siglip_digits_text",
        family="digits_text",
        config=DIGITS_WORDS,
        published=published_namings(DIGITS_WORDS, huggingface_names.SIGLIP_TEXT),
        parameters=92_608,
        pooler="a linear layer on the last token",
    ),
    _towers(
        name="siglip_digits_dual",
        purpose="Says which sentences are about a handwritten digit: small enough to look into.",
        family="digits_dual",
        is_drawn=True,
        config=DIGITS_TOWERS,
        published=published_namings(DIGITS_TOWERS, huggingface_names.SIGLIP_DUAL),
        parameters=303_170,
    ),
)
