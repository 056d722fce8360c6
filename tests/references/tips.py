"""TIPS by Equimo, and by transformers, whose TIPSv2 consists of the same networks."""

from functools import partial

from tests.references import Arrays, running
from tests.references.dinov2 import by_equimo
from tests.references.running import Values
from weights.namings import tower_names
from zoo.architectures.architecture import Config

transformers, texts, both = (
    partial(running.by_settings, names)
    for names in (tower_names.HUB_TIPS_VIT, tower_names.HUB_TIPS_TEXT, tower_names.HUB_TIPS_DUAL)
)


def by_transformers(config: Config, values: Values, image) -> Arrays:
    return running.run_transformers(transformers(config, values), image)


REFERENCES = running.both(by_equimo, by_transformers, tips_vits14_hr="tips_vits14_hr")
REFERENCES["tipsv2_vitb14"] = {"transformers": by_transformers}
