"""The pages of a site as HTML. Every number in them is from a catalogue or a manifest."""

import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from zoo.artifacts.build.extras import PHOTOGRAPH, card
from zoo.manifest.words import NOT_TRAINED, limit, origin, preprocessing_words
from zoo.site.catalogue import Catalogue, CatalogueRow
from zoo.site.folders import Built
from zoo.site.searchable import Searchable, search_facts
from zoo.version import __version__

ASSETS, MODELS, RUNTIME = "assets", "models", "runtime"
"""Folders of a site."""

RUN_HERE = ("fp32", "fused", "int8")
"""Variants that browsers compute well; the first two are equally precise, so one is enough."""

DRAWN: Mapping[str, Sequence[Set[str]]] = {
    "image-feature-extraction": ({"last_hidden_state"},),
    "image-classification": ({"last_hidden_state", "logits"},),
    "depth-estimation": ({"predicted_depth"},),
    "image-segmentation": ({"logits"}, {"class_queries_logits", "masks_queries_logits"}),
    "zero-shot-image-classification": ({"logits_per_image"},),
}
"""By a network's task what the page draws: all outputs of one of these."""

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Column:
    """Of the table: the field of a row that it shows; of a number also how it is shown."""

    field: str
    heading: str
    unit: str = ""
    shown: Callable[[Any], str] | None = None


COLUMNS = (
    Column("variant", "Variant"),
    Column("family", "Family"),
    Column("precision", "Precision"),
    Column("parameters", "Parameters", "M", lambda n: f"{n / 1e6:.1f}"),
    Column("bytes", "Size", "MB", lambda n: f"{n / 1e6:.1f}"),
    Column("input", "Input"),
    Column("licence", "Licence"),
    Column("error", "Error", "largest", lambda n: f"{n:.1e}"),
    Column("p50_ms", "Speed", "ms", lambda n: f"{n:.3g}"),
    Column("multiply_adds", "Multiply-adds", "G", lambda n: f"{n / 1e9:.3g}"),
    Column("peak_bytes", "Peak memory", "MB", lambda n: f"{n / 1e6:.0f}"),
)
"""After the model's name, which is the first."""


@dataclass(frozen=True)
class Cell:
    """Of the table: its text, and the number that it is sorted by."""

    text: str
    number: float | None


def pages(
    models: Sequence[Built], found: Catalogue, runtime_bytes: int, searched: Searchable | None
) -> dict[str, str]:
    """Every page by the name of its file."""
    environment = Environment(
        loader=PackageLoader("zoo.site"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals["runtime_mb"] = f"{runtime_bytes / 1e6:.1f}"
    environment.globals |= {"cells": cells, "columns": COLUMNS, "version": __version__}
    environment.globals["has_tokenizers"] = any(built.has_tokenizer for built in models)
    index = environment.get_template("index.html.jinja").render(
        rows=found.rows,
        found=found,
        timed={(built.speeds.runtime, built.speeds.machine) for built in models},
        searched=searched,
        choices={field: sorted({vars(row)[field] for row in found.rows}) for field in FILTERS},
    )
    template = environment.get_template("model.html.jinja")
    made = {f"{built.entry.name}.html": template.render(facts(built, found)) for built in models}
    if searched is not None:
        told = search_facts(searched, demo(searched.built))
        page = environment.get_template("search.html.jinja")
        made["search.html"] = page.render(searched=searched, facts=told)
    return {"index.html": index, **made}


FILTERS = ("family", "precision", "input", "licence")


def cells(row: CatalogueRow) -> dict[str, Cell]:
    """A row of the table by field, the model's name left out."""
    found = {}
    for column in COLUMNS:
        value = vars(row)[column.field]
        more = "≥ " if column.field == "multiply_adds" and row.uncounted else ""
        if column.shown is None or value is None:
            found[column.field] = Cell("not measured" if value is None else value, None)
        else:
            found[column.field] = Cell(more + column.shown(value), value)
    return found


def facts(built: Built, found: Catalogue) -> Mapping[str, Any]:
    """What a model's page is made of."""
    manifest, entry = built.manifest, built.entry
    return {
        "built": built,
        "manifest": manifest,
        "entry": entry,
        "config": entry.config,
        "rows": [row for row in found.rows if row.model == built.entry.name],
        "found": found,
        "steps": preprocessing_words(manifest.preprocessing.settings),
        "origin": origin(manifest.weights),
        "not_trained": NOT_TRAINED.format(seed=manifest.weights.seed),
        "limit": limit,
        "code": dict(BLOCK.findall(card(manifest))),
        "folder": f"{MODELS}/{built.entry.name}",
        "demo": demo(built),
    }


def demo(built: Built) -> dict[str, Any]:
    """What the programs of the page have to know to run the model."""
    manifest, config = built.manifest, built.entry.config
    how = manifest.preprocessing
    given = {output.name for variant in built.variants.values() for output in variant.outputs}
    drawn = any(outputs <= given for outputs in DRAWN[config.task])
    whole = built.variants.items() if drawn and is_fed(built) else ()
    small = {name: v.file for name, v in whole if len(v.files) == 1}
    chosen = {name: small[name] for name in RUN_HERE if name in small}
    if "fp32" in chosen:
        chosen.pop("fused", None)
    return {
        "folder": f"{MODELS}/{built.entry.name}",
        "files": {
            name: {"file": file, "bytes": manifest.listed[file].bytes}
            for name, file in chosen.items()
        },
        "input": manifest.input,
        "size": manifest.size or how.size,
        "preprocessing": json.loads(how.model_dump_json()),
        "stride": config.stride,
        "classes": config.classes,
        "takes": config.takes,
        "probabilities": manifest.similarity and manifest.similarity.probabilities,
        "photograph": PHOTOGRAPH,
    }


def is_fed(built: Built) -> bool:
    """Whether a page can make what the files take: texts need a tokenizer."""
    return built.has_tokenizer or "input_ids" not in built.entry.config.takes
