"""The network that a manifest is about."""

from dataclasses import replace

from zoo.architectures.entry import Licence, ModelInfo
from zoo.artifacts.schema import Manifest
from zoo.common.errors import BadFile
from zoo.registry.lookup import MODELS, architecture, info


def stated_entry(manifest: Manifest) -> ModelInfo:
    """The zoo's entry for the model of a manifest, or one for the network of somebody's own that it
    describes. **Raises** `UnknownModel`, or `BadFile` where that is of another kind."""
    if manifest.network is None:
        entry = info(manifest.model)
        is_other = len(manifest.classes) == entry.config.classes != 0
        return replace(entry, labels=manifest.classes) if is_other else entry
    family = architecture(manifest.family or manifest.model)
    kinds = {type(entry.config) for entry in MODELS.values() if entry.family == family.family}
    if type(manifest.network) not in kinds:
        raise BadFile(
            f"a manifest says that {ascii(manifest.model)[1:-1]} is of {family.family}, and its "
            "network is of another kind: export, build or pull it again."
        )
    return replace(
        family,
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
