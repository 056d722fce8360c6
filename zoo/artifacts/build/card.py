"""The card of a folder: what a person has to know to use it, from its manifest."""

from zoo.manifest.markdown import markdown
from zoo.manifest.schema import Manifest
from zoo.manifest.words import NOT_TRAINED, build_rows, doubt, preprocessing_words
from zoo.models.config import ViTConfig
from zoo.registry.lookup import info

TEMPLATE = "card.md.jinja"

LICENCES = {"apache-2.0.txt": "apache-2.0", "cc-by-4.0.txt": "cc-by-4.0"}
"""Licences that hubs have a word for."""


def card(manifest: Manifest) -> str:
    """`README.md`: Markdown, whose programs run as they stand if they are started in the folder."""
    entry, how = info(manifest.model), manifest.preprocessing.settings
    variants = manifest.variants
    return markdown(
        TEMPLATE,
        **dict(manifest),
        hub_licence=LICENCES.get(manifest.licence.text),
        config=entry.config,
        is_vit=isinstance(entry.config, ViTConfig),
        pooler=entry.pooler,
        doubt=doubt(manifest.weights),
        not_trained=NOT_TRAINED.format(seed=manifest.weights.seed),
        rows=[(variants[name], *numbers) for name, *numbers in build_rows(manifest)],
        outputs={item.name for variant in variants.values() for item in variant.outputs},
        how=how,
        steps=preprocessing_words(how),
    )
