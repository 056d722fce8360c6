"""`vit_digits` by transformers: DINOv3's vision transformer, followed by a matrix product."""

from tests.references import Arrays, Reference, dinov3
from tests.references.running import Values
from zoo.architectures.architecture import Config


def by_transformers(config: Config, values: Values, image) -> Arrays:
    """Run transformers, with a mask token that it requires but does not use."""
    backbone = {name: value for name, value in values.items() if not name.startswith("head.")}
    mask = {"mask_token": 0 * values["cls_token"]}
    features = dinov3.by_transformers(config, backbone | mask, image)
    logits = features["pooler_output"] @ values["head.weight"].T + values["head.bias"]
    return features | {"logits": logits}


REFERENCES: dict[str, dict[str, Reference]] = {"vit_digits": {"transformers": by_transformers}}
