"""TIPS by Equimo, and by transformers, whose TIPSv2 has the same networks."""

from tests.references import Arrays, running
from tests.references.dinov2 import by_equimo
from tests.references.running import Values
from weights.mapping import Naming
from weights.namings import tower_names
from zoo.checkpoints.settings.huggingface import transformers_kind
from zoo.models.config import Config


def transformers(config: Config, values: Values):
    return _model(config, values, tower_names.HUB_TIPS_VIT)


def texts(config: Config, values: Values):
    return _model(config, values, tower_names.HUB_TIPS_TEXT)


def both(config: Config, values: Values):
    return _model(config, values, tower_names.HUB_TIPS_DUAL)


def _model(config: Config, values: Values, names: Naming):
    import transformers

    made = transformers_kind(config)
    kind = getattr(transformers, made.name)
    settings = kind.config_class(**made.settings(config))
    return running.transformers_model(kind, settings, names, values)


def by_transformers(config: Config, values: Values, image) -> Arrays:
    return running.run_transformers(transformers(config, values), image)


REFERENCES = running.both(by_equimo, by_transformers, tips_vits14_hr="tips_vits14_hr")
REFERENCES["tipsv2_vitb14"] = {"transformers": by_transformers}
