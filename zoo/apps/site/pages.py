"""Render the pages of a site as HTML. Every number in them comes from a catalogue or a manifest."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from zoo.apps.site.catalogue import Catalogue, CatalogueRow
from zoo.apps.site.folders import BuiltFolder
from zoo.apps.site.searchable import SearchableDataset, search_facts
from zoo.apps.site.structure import read_structure
from zoo.architectures.entry import MEASURED_TASKS
from zoo.artifacts.descriptions import (
    RANDOM_WEIGHTS,
    describe_limit,
    describe_weights,
    find_base_model,
)
from zoo.artifacts.measured import Speeds
from zoo.common.versions import __version__
from zoo.export.assemble.extras import PHOTOGRAPH, render_card
from zoo.images.preprocessing import Preprocessing
from zoo.registry.model_descriptions import describe_purpose

ASSETS, MODELS, RUNTIME, THUMBS = "assets", "models", "runtime", "thumbnails"
"""Folders of a site."""

BROWSER_VARIANTS = ("fp32", "fused", "int8")
"""Variants that browsers run well.

The first two have the same precision, so that only one of them is offered.
"""

DTYPES = {"fp32": ("fp32", ""), "int8": ("q8", "_quantized")}
"""Precisions that browsers run.

Each has its name in transformers.js, and the ending that transformers.js appends to the name of a
file.
"""

CODE_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Column:
    """A column of the table of files.

    - `field`: the field of a `CatalogueRow` that the column shows.
    - `heading`, `unit`: the texts of the heading.
    - `shown`: the function that formats a number, or None for a column of texts.
    """

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
"""The columns of the table of files.

Facts that all files of a model share are in the first cell of its row.
"""


@dataclass(frozen=True)
class Cell:
    """A cell of the table: its text, and the number that it is sorted by, or None for a text."""

    text: str
    number: float | None


def render_pages(
    models: Sequence[BuiltFolder],
    table: Catalogue,
    runtime_bytes: int,
    searched: SearchableDataset | None,
    captions: Mapping[str, str],
) -> dict[str, str]:
    """Return the HTML of every page of a site, by file name.

    **Arguments**

    - `models`: the folders, each of which gets a page.
    - `table`: the facts about all ONNX files.
    - `runtime_bytes`: the size of the JavaScript libraries that a visitor downloads.
    - `searched`: the dataset of the search page, or None for no such page.
    - `captions`: the captions of thumbnails by the name of the model.
    """
    environment = Environment(
        loader=PackageLoader("zoo.apps.site"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["quoted"] = json.dumps
    environment.globals["runtime_mb"] = f"{runtime_bytes / 1e6:.1f}"
    environment.globals |= {
        "cells": catalogue_cells,
        "columns": CATALOGUE_COLUMNS,
        "version": __version__,
    }
    environment.globals |= {"thumbs": THUMBS, "drawn": captions}
    index = environment.get_template("index.html.jinja").render(
        groups=[model_page_variables(built, table) for built in models],
        found=table,
        timed=sorted(
            {(speeds.runtime, speeds.machine) for built in models for speeds in all_speeds(built)}
        ),
        searched=searched,
        choices={field: sorted({vars(row)[field] for row in table.rows}) for field in FILTERS},
    )
    template = environment.get_template("model.html.jinja")
    html = {}
    for built in models:
        parts = {name: read_structure(built.folder / v.file) for name, v in built.variants.items()}
        context = model_page_variables(built, table)
        html[f"{built.entry.name}.html"] = template.render(context, structures=parts)
    if searched is not None:
        names = filter(None, (searched.pictures, searched.texts))
        towers = {name: loading_options(searched.built, name) for name in names}
        search = search_facts(searched, demo_facts(searched.built) | {"files": towers})
        page = environment.get_template("search.html.jinja")
        html["search.html"] = page.render(searched=searched, facts=search)
    return {"index.html": index, **html}


FILTERS = ("family", "precision", "input", "licence")


def all_speeds(built: BuiltFolder) -> list[Speeds]:
    """Return the speeds of a folder's files, one entry for each machine that measured them."""
    return [built.speeds, *built.other_speeds]


def catalogue_cells(row: CatalogueRow) -> dict[str, Cell]:
    """Return the cells of a row of the table by field.

    `≥` marks a number of multiply-adds that leaves products out. `≤` marks a time that was measured
    on a busy machine. A value that was not measured is shown as a dash.
    """
    cells_by_field = {}
    for column in CATALOGUE_COLUMNS:
        value = vars(row)[column.field]
        sign = "≥ " if column.field == "multiply_adds" and row.uncounted else ""
        sign = "≤ " if column.field == "p50_ms" and row.busy else sign
        if column.shown is None or value is None:
            cells_by_field[column.field] = Cell("\u2013" if value is None else value, None)
        else:
            cells_by_field[column.field] = Cell(sign + column.shown(value), value)
    return cells_by_field


def model_page_variables(built: BuiltFolder, table: Catalogue) -> Mapping[str, Any]:
    """Return the variables of the template for a model's page, by name."""
    manifest, entry = built.manifest, built.entry
    return {
        "built": built,
        "manifest": manifest,
        "entry": entry,
        "config": entry.config,
        "rows": [row for row in table.rows if row.model == built.entry.name],
        "found": table,
        "steps": manifest.preprocessing.settings.description,
        "origin": describe_weights(manifest.weights),
        "not_trained": RANDOM_WEIGHTS.format(seed=manifest.weights.seed),
        "limit": describe_limit,
        "purpose": describe_purpose(entry),
        "base_model": find_base_model(manifest, entry),
        "tasks": MEASURED_TASKS,
        "results_page": entry.results_page if manifest.network is None else "",
        "timed": all_speeds(built),
        "code": dict(CODE_BLOCK.findall(render_card(manifest))),
        "folder": f"{MODELS}/{built.entry.name}",
        "demo": demo_facts(built),
        "described": entry.config.task.describe_outputs(entry.pooler),
    }


def demo_facts(built: BuiltFolder) -> dict[str, Any]:
    """Return the facts that the scripts of a model's page need to run the model in a browser.

    `files` is empty if browsers cannot run the model.
    """
    manifest, config = built.manifest, built.entry.config
    preprocessing = manifest.preprocessing
    outputs = {output.name for variant in built.variants.values() for output in variant.outputs}
    needed = config.task.page_draws
    can_draw = bool(needed) and needed <= outputs
    # A network for texts can only be used with a tokenizer.
    can_feed = built.has_tokenizer or config.texts is None
    can_feed = can_feed and config.pictures is not None and config.pictures.is_plain
    candidates = built.variants.items() if can_draw and can_feed else ()
    small = {name for name, variant in candidates if len(variant.files) == 1}
    offered = [name for name in BROWSER_VARIANTS if name in small]
    if "fp32" in offered and "fused" in offered:
        offered.remove("fused")
    return {
        "folder": f"{MODELS}/{built.entry.name}",
        "files": {name: loading_options(built, name) for name in offered},
        "input": manifest.input,
        "size": manifest.size or preprocessing.size,
        "sizes": offered_sizes(built),
        # Features are shown at a larger size, with more patches. Other networks start at the size
        # that they were trained with.
        "first_size": int(
            config.task.name == "image-feature-extraction" and len(offered_sizes(built)) > 1
        ),
        "fit": picture_fit(preprocessing.settings),
        "stride": config.stride,
        "classes": config.classes,
        "photograph": PHOTOGRAPH,
    }


def loading_options(built: BuiltFolder, name: str) -> dict[str, Any]:
    """Return the options to load a variant in transformers.js, and the size of the download.

    `name` is the name of the variant.
    """
    variant = built.variants[name]
    dtype, ending = DTYPES[variant.precision]
    options = {"dtype": dtype, "model_file_name": Path(variant.file).stem.removesuffix(ending)}
    return {"options": options, "bytes": built.manifest.files_by_name[variant.file].bytes}


def picture_fit(preprocessing: Preprocessing) -> dict[str, Any]:
    """Return how a page resizes a picture to the size of the network's input.

    - `aspect`: `"stretched"`, `"covering"` (resized and cropped) or `"inside"` (resized and
      padded).
    - `margin`: the (height, width) of the resized picture before the crop, divided by that of the
      input.
    - `even`: True if half of an odd margin is rounded to an even number, False if it is rounded
      down.
    """
    edges = (
        preprocessing.size
        if preprocessing.resize is None
        else preprocessing.size_before_crop(preprocessing.size, preprocessing.resize)
    )
    aspect = (
        "stretched" if preprocessing.resize is None or preprocessing.is_stretched else "covering"
    )
    return {
        "aspect": "inside" if preprocessing.padded else aspect,
        "margin": [edge / side for edge, side in zip(edges, preprocessing.size, strict=True)],
        "even": preprocessing.crop_rounding == "half_even",
    }


LARGER_SIDES = (448, 672)
"""Sides in pixels at which patches show more than at the model's own size."""


def offered_sizes(built: BuiltFolder) -> list[tuple[int, int]]:
    """Return the sizes (height, width) of the network's input that a visitor can choose.

    The first size is that of the model. Larger sizes are added if the files accept `pixel_values`
    of any size, the network takes no texts, and the model's own size is a square of at least 224
    pixels.
    """
    manifest, config = built.manifest, built.entry.config
    own_size = manifest.size or manifest.preprocessing.size
    is_open = (
        manifest.size is None and manifest.input == "float32" and own_size[0] == own_size[1] >= 224
    )
    if not is_open or config.texts is not None:
        return [own_size]
    larger = (side // config.stride * config.stride for side in LARGER_SIDES)
    return [own_size, *((side, side) for side in larger if side > own_size[0])]
