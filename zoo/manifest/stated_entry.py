"""The network that a manifest is about."""

from dataclasses import replace

from zoo.architectures.entry import Licence, ModelInfo
from zoo.manifest.schema import Manifest
from zoo.registry.lookup import architecture, info


def stated_entry(manifest: Manifest) -> ModelInfo:
    """The zoo's entry for the model of a manifest, or one for the network of somebody's own that it
    describes. **Raises** `UnknownModel`."""
    if manifest.network is None:
        entry = info(manifest.model)
        is_other = len(manifest.classes) == entry.config.classes != 0
        return replace(entry, labels=manifest.classes) if is_other else entry
    return replace(
        architecture(manifest.family or manifest.model),
        name=manifest.model,
        aliases=manifest.aliases,
        config=manifest.network,
        published={},
        labels=manifest.classes,
        preprocessing=manifest.preprocessing.settings,
        parameters=manifest.parameters,
        digest="",
        licence=Licence(**manifest.licence.model_dump()),
    )
