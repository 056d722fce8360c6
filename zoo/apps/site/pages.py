"""The pages of a site as HTML. Every number in them is from a catalogue or a manifest."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from zoo.apps.site.catalogue import Catalogue, CatalogueRow
from zoo.apps.site.folders import BuiltFolder
from zoo.apps.site.searchable import Searchable, search_facts
from zoo.apps.site.structure import structure
from zoo.architectures.entry import MEASURED_TASKS
from zoo.artifacts.measured import Speeds
from zoo.artifacts.words import NOT_TRAINED, base_model, limit, origin
from zoo.common.versions import __version__
from zoo.export.assemble.extras import PHOTOGRAPH, card
from zoo.images.preprocessing import Preprocessing
from zoo.registry.model_words import purpose

ASSETS, MODELS, RUNTIME, THUMBS = "assets", "models", "runtime", "thumbnails"
"""Folders of a site."""

RUN_HERE = ("fp32", "fused", "int8")
"""Variants that browsers compute well; the first two are equally precise, so one is enough."""

DTYPES = {"fp32": ("fp32", ""), "int8": ("q8", "_quantized")}
"""Precisions as transformers.js calls them, and what it appends to the name of a file."""

CODE_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Column:
    """Column of the table: the field of a row that it shows; of a number also how it is shown."""

    field: str
    heading: str
    unit: str = ""
    shown: Callable[[Any], str] | None = None


CATALOGUE_COLUMNS = (
    Column("variant", "File"),
    Column("bytes", "Size", "MB", lambda n: f"{n / 1e6:.1f}"),
    Column("error", "Error", "largest", lambda n: f"{n:.1e}"),
    Column("p50_ms", "Speed", "ms", lambda n: f"{n:.3g}"),
    Column("multiply_adds", "Multiply-adds", "G", lambda n: f"{n / 1e9:.3g}"),
    Column("peak_bytes", "Peak memory", "MB", lambda n: f"{n / 1e6:.0f}"),
)
"""Of a file; what a model's files have in common is in the first cell of its row."""


@dataclass(frozen=True)
class Cell:
    """Cell of the table: its text, and the number that it is sorted by."""

    text: str
    number: float | None


def pages(
    models: Sequence[BuiltFolder],
    table: Catalogue,
    runtime_bytes: int,
    searched: Searchable | None,
    drawn: Mapping[str, str],
) -> dict[str, str]:
    """Every page by the name of its file; `drawn` says what is on the models' small pictures."""
    environment = Environment(
        loader=PackageLoader("zoo.apps.site"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["quoted"] = json.dumps
    environment.globals["runtime_mb"] = f"{runtime_bytes / 1e6:.1f}"
    environment.globals |= {"cells": cells, "columns": CATALOGUE_COLUMNS, "version": __version__}
    environment.globals |= {"thumbs": THUMBS, "drawn": drawn}
    index = environment.get_template("index.html.jinja").render(
        groups=[facts(built, table) for built in models],
        found=table,
        timed=sorted(
            {(each.runtime, each.machine) for built in models for each in measured(built)}
        ),
        searched=searched,
        choices={field: sorted({vars(row)[field] for row in table.rows}) for field in FILTERS},
    )
    template = environment.get_template("model.html.jinja")
    made = {}
    for built in models:
        parts = {name: structure(built.folder / v.file) for name, v in built.variants.items()}
        shown = facts(built, table)
        made[f"{built.entry.name}.html"] = template.render(shown, structures=parts)
    if searched is not None:
        names = filter(None, (searched.pictures, searched.texts))
        towers = {name: loading(searched.built, name) for name in names}
        shown = search_facts(searched, demo(searched.built) | {"files": towers})
        page = environment.get_template("search.html.jinja")
        made["search.html"] = page.render(searched=searched, facts=shown)
    return {"index.html": index, **made}


FILTERS = ("family", "precision", "input", "licence")


def measured(built: BuiltFolder) -> list[Speeds]:
    """How fast a model's files are, on one machine or several."""
    return [built.speeds, *built.elsewhere]


def cells(row: CatalogueRow) -> dict[str, Cell]:
    """A row of the table by field, the model's name left out."""
    cells_by_field = {}
    for column in CATALOGUE_COLUMNS:
        value = vars(row)[column.field]
        more = "≥ " if column.field == "multiply_adds" and row.uncounted else ""
        more = "≤ " if column.field == "p50_ms" and row.busy else more
        if column.shown is None or value is None:
            cells_by_field[column.field] = Cell("\u2013" if value is None else value, None)
        else:
            cells_by_field[column.field] = Cell(more + column.shown(value), value)
    return cells_by_field


def facts(built: BuiltFolder, table: Catalogue) -> Mapping[str, Any]:
    """Facts that a model's page is made of."""
    manifest, entry = built.manifest, built.entry
    return {
        "built": built,
        "manifest": manifest,
        "entry": entry,
        "config": entry.config,
        "rows": [row for row in table.rows if row.model == built.entry.name],
        "found": table,
        "steps": manifest.preprocessing.settings.words,
        "origin": origin(manifest.weights),
        "not_trained": NOT_TRAINED.format(seed=manifest.weights.seed),
        "limit": limit,
        "purpose": purpose(entry),
        "base_model": base_model(manifest, entry),
        "tasks": MEASURED_TASKS,
        "results_page": entry.results_page if manifest.network is None else "",
        "timed": measured(built),
        "code": dict(CODE_BLOCK.findall(card(manifest))),
        "folder": f"{MODELS}/{built.entry.name}",
        "demo": demo(built),
        "described": entry.config.task.described(entry.pooler),
    }


def demo(built: BuiltFolder) -> dict[str, Any]:
    """Facts with which the programs of the page run the model."""
    manifest, config = built.manifest, built.entry.config
    how = manifest.preprocessing
    outputs = {output.name for variant in built.variants.values() for output in variant.outputs}
    needed = config.task.page_draws
    drawn = bool(needed) and needed <= outputs
    # Texts need a tokenizer.
    is_fed = built.has_tokenizer or config.texts is None
    is_fed = is_fed and config.pictures is not None and config.pictures.is_plain
    whole = built.variants.items() if drawn and is_fed else ()
    small = {name for name, variant in whole if len(variant.files) == 1}
    chosen = [name for name in RUN_HERE if name in small]
    if "fp32" in chosen and "fused" in chosen:
        chosen.remove("fused")
    return {
        "folder": f"{MODELS}/{built.entry.name}",
        "files": {name: loading(built, name) for name in chosen},
        "input": manifest.input,
        "size": manifest.size or how.size,
        "sizes": offered_sizes(built),
        # Whoever looks at features wants to see patches; what answers was trained at its own size.
        "first_size": int(
            config.task.name == "image-feature-extraction" and len(offered_sizes(built)) > 1
        ),
        "fit": fit(how.settings),
        "stride": config.stride,
        "classes": config.classes,
        "photograph": PHOTOGRAPH,
    }


def loading(built: BuiltFolder, name: str) -> dict[str, Any]:
    """Return the options with which transformers.js loads a variant, and its bytes."""
    variant = built.variants[name]
    dtype, ending = DTYPES[variant.precision]
    options = {"dtype": dtype, "model_file_name": Path(variant.file).stem.removesuffix(ending)}
    return {"options": options, "bytes": built.manifest.listed[variant.file].bytes}


def fit(how: Preprocessing) -> dict[str, Any]:
    """Return how a page draws a picture at the network's size.

    `aspect` is "stretched", "covering" or "inside"; `margin` is how many times as high and as wide
    as the network's input the picture is before it is cropped. Half of an odd margin is rounded to
    an `even` number, or else down.
    """
    edges = how.size if how.resize is None else how.covering(how.size, how.resize)
    kept = "stretched" if how.resize is None or how.is_stretched else "covering"
    return {
        "aspect": "inside" if how.padded else kept,
        "margin": [edge / side for edge, side in zip(edges, how.size, strict=True)],
        "even": how.crop_rounding == "half_even",
    }


LARGER = (448, 672)
"""Pixels of a side at which patches show more than at the usual size."""


def offered_sizes(built: BuiltFolder) -> list[tuple[int, int]]:
    """(height, width) that a visitor may choose: the model's own, and larger ones where files leave
    them open and there are patches to look at."""
    manifest, config = built.manifest, built.entry.config
    own = manifest.size or manifest.preprocessing.size
    is_open = manifest.size is None and manifest.input == "float32" and own[0] == own[1] >= 224
    if not is_open or config.texts is not None:
        return [own]
    larger = (side // config.stride * config.stride for side in LARGER)
    return [own, *((side, side) for side in larger if side > own[0])]
