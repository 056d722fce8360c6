"""CLIP by transformers: each tower with its projection, and both towers together."""

from functools import partial

from tests.references import Arrays, running
from tests.references.running import Values
from weights.namings import clip_names
from zoo.architectures.architecture import Config

transformers, texts, both = (
    partial(running.by_settings, names)
    for names in (clip_names.CLIP_VIT, clip_names.CLIP_TEXT, clip_names.CLIP_DUAL)
)


def by_transformers(config: Config, values: Values, image) -> Arrays:
    model, outputs = transformers(config, values), ("last_hidden_state", "image_embeds")
    return running.run_transformers(model, image, outputs, interpolate_pos_encoding=True)


REFERENCES = {"clip_vitb32": {"transformers": by_transformers}}
