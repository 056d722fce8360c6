"""`vit_digits`: DINOv3's vision transformer for images of 8 x 8 pixels, a classifier of digits.

The one model whose weights the package itself holds. `zoo/digits` makes them, and
`zoo/data/README.md` says how well they do.
"""

from weights.namings import meta_names
from zoo.models.config import ViTConfig
from zoo.registry.entry import Licence, ModelInfo
from zoo.registry.families import shared

LICENCE_PAGE = "https://www.apache.org/licenses/LICENSE-2.0"

CONFIG = ViTConfig(
    *(64, 4, 2, 192), qkv_bias=False, layer_scale=0.1, patch_size=2, mask_token=False, classes=10
)

MODELS = (
    ModelInfo(
        name="vit_digits",
        family="digits",
        config=CONFIG,
        namings=(meta_names.DINOV3_VIT,),
        preprocessing=shared.centred(size=(8, 8), rescale_first=True),
        # Of the weights. The images are not in the package; see zoo/data/README.md for theirs.
        licence=Licence("Apache License 2.0", "apache-2.0.txt", LICENCE_PAGE, download=""),
        checkpoint="vit_digits.safetensors",
        digest="bb0ff8d09b1e1d7992c67433f7d8382373cca081fddb228f5669034cd8b56d41",
        parameters=168_586,
        source="zoo/digits, on scikit-learn's copy of UCI's handwritten digits",
        pooler=shared.CLASS_TOKEN,
        embedded=True,
    ),
)
