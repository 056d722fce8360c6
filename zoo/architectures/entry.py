"""Entries of the registry and published results: plain data without JAX.

Published results are others', except for the networks whose weights this project has trained. A
number is in an entry only if its source was read; where nothing is known, there is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from weights.mapping import Naming
from weights.namings.eqx_names import LEAVES
from weights.parameters import parameter
from weights.sources.hub import HubFile
from weights.sources.locate import PublishedFiles
from zoo.architectures.architecture import Config
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.common.html import html_table
from zoo.images.preprocessing import Preprocessing

Task = Literal["k-NN", "linear", "classifier", "zero-shot", "depth", "areas", "boxes"]

MEASURED_TASKS: Mapping[Task, str] = {
    "k-NN": "% right by the nearest neighbours",
    "linear": "% right by a linear layer on frozen features",
    "classifier": "% right by its own classifier",
    "zero-shot": "% right by sentences about the classes",
    "depth": "error in metres (RMSE) of a linear layer on frozen features",
    "boxes": "% average precision of boxes, at overlaps from 50 to 95 %",
    "areas": "%, mIoU, PQ or AP as is usual for the data",
}
"""How each is measured, and in which unit."""


@dataclass(frozen=True)
class ReportedResult:
    """A result on some data, in the unit of its task, and where it is reported."""

    task: Task
    data: str
    value: float
    source: str


def reported(source: str, data: str, **values: float | None) -> tuple[ReportedResult, ...]:
    """Results on the same data, by the task's name with `_` for `-`; None for what is not known."""
    names: dict[str, Task] = {name.replace("-", "_"): name for name in MEASURED_TASKS}
    rows = ((names[name], value) for name, value in values.items())
    return tuple(
        ReportedResult(task, data, value, source) for task, value in rows if value is not None
    )


IMAGENET, NYU, ADE20K = "ImageNet-1k", "NYU Depth v2", "ADE20k"

UNSTATED = "not stated"
"""The terms of weights of which nobody has said any."""

NO_CLASS = "N/A"
"""The name of a number that is of no class, in lists of names that have gaps."""

DATA = Path(__file__).parents[1] / "data"  # where embedded weights lie


@dataclass(frozen=True)
class Licence:
    """Terms under which the weights are published, and the pages that say so.

    `text` is the file in `data/licences` that travels with whatever is made from the weights.
    """

    name: str
    text: str
    page: str
    download: str


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelInfo:
    """One model of the zoo.

    `namings` are those of the checkpoints there are for it. `config` is Equimo's; where somebody
    else's checkpoint belongs to a model that differs in detail (another GELU, no head), `published`
    has that model's by the name of the naming. `libraries` has the model that a library computes
    with the same weights, where it is another: what somebody trained there belongs to that.
    `options` are those that somebody's checkpoint of a library may have or not, by its naming.

    `checkpoint` is the name of the authors' file; `digest` its sha256's first hex digits, where its
    name says them. With `embedded` that file lies in `zoo/data` and is taken before any other;
    `digest` then has all digits. `archive` is Equimo's file, `repository` holds transformers' or
    timm's files on the hub; `hub` are files that are downloaded, which their publishers have there,
    and `mirrors` copies that others keep. What there is none of is empty.
    `parameters` counts what training adjusts, the mask token and the unused norm of `untied_norms`
    included, rotary periods and frequencies not. `pooler` says what `pooler_output` is, where there
    is one. `labels` are the classes of a classifier, or the file in `zoo/data` with a line for each
    of those of its publisher's classifiers; without any, classes are called by their numbers. What
    takes texts has the `preprocessing` of the images that they are compared with, and `examples` of
    what may be in them, in words. `reported` is how well others found it to do. `source` is the
    authors' repository on GitHub, or says where else the network comes from; `papers` are numbers
    at arXiv. `purpose` says what the model is for, where its task alone would say too little. Where
    it `is_drawn`, visitors of a page draw what it takes.
    """

    name: str
    family: str
    aliases: tuple[str, ...] = ()
    config: Config
    namings: tuple[Naming, ...]
    preprocessing: Preprocessing
    licence: Licence
    checkpoint: str = ""
    digest: str = ""
    archive: str = ""
    repository: str = ""
    hub: tuple[HubFile, ...] = ()
    mirrors: tuple[HubFile, ...] = ()
    parameters: int
    source: str
    papers: tuple[str, ...] = ()
    purpose: str = ""
    pooler: str = ""
    labels: str | tuple[str, ...] = ()
    examples: tuple[str, str, str] = ("a cat", "a dog", "a car")
    published: Mapping[str, Config] = field(default_factory=dict)
    libraries: Mapping[str, ViTConfig] = field(default_factory=dict)
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    embedded: bool = False
    is_drawn: bool = False
    reported: tuple[ReportedResult, ...] = ()

    def __repr__(self) -> str:
        return f"<ModelInfo {self.name}: {self.config.text}, {self.parameters:,} parameters>"

    def _repr_html_(self) -> str:
        facts = {
            "family": self.family,
            "parameters": f"{self.parameters:,}",
            "architecture": self.config.text,
            **({"pooler_output": self.pooler} if self.pooler else {}),
            "checkpoint": self.file,
            "licence": f"{self.licence.name}, {self.licence.page}",
            "source": self.source,
            **({"papers": ", ".join(self.paper_pages)} if self.papers else {}),
        }
        return html_table(self.name, facts.items())

    @property
    def unlisted(self) -> ModelInfo:
        """Make an entry for a network of this architecture in sizes of its own, which nobody
        published: it is called by its family, and nothing is known of its terms."""
        nowhere = replace(self, checkpoint="", archive="", repository="", hub=(), mirrors=())
        own = replace(nowhere, name=self.family, aliases=(), digest="", embedded=False)
        return replace(own, reported=(), licence=Licence(UNSTATED, "", "", ""))

    def called(self, name: str) -> ModelInfo:
        """The same under a name of somebody's own."""
        return replace(self, name=name, aliases=()) if name else self

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes of `logits`, in their order; none without a classifier."""
        count, names = self.config.classes, self.labels
        if isinstance(names, str):
            names = tuple((DATA / names).read_text(encoding="utf-8").splitlines()) if count else ()
        return names if len(names) == count else tuple(map(str, range(count)))

    @property
    def paper_pages(self) -> tuple[str, ...]:
        """Where the papers can be read."""
        return tuple(f"https://arxiv.org/abs/{number}" for number in self.papers)

    @property
    def results_page(self) -> str:
        """Where the authors say how well the model does; nothing where they have no such page."""
        on_github = "https://github.com/"
        if self.licence.download.startswith(on_github):
            return self.licence.download
        return on_github + self.source if re.fullmatch(r"[\w.-]+/[\w.-]+", self.source) else ""

    @property
    def names(self) -> tuple[str, ...]:
        """Everything it is called: by us, by its publishers, and by hubs."""
        return tuple(filter(None, (self.name, *self.aliases, self.repository)))

    @property
    def file(self) -> str:
        """Name to ask for if there are no weights: a file, or else a repository."""
        return self.checkpoint or self.repository or self.archive

    @property
    def files(self) -> tuple[str, ...]:
        """Names of files that can be nothing else."""
        return tuple(filter(None, (self.checkpoint, self.archive)))

    @property
    def places(self) -> PublishedFiles:
        """Under which names its weights are looked for."""
        return PublishedFiles(
            name=self.file,
            checkpoint=self.checkpoint,
            archive=self.archive,
            repository=self.repository,
            hub=self.hub,
            terms=self.licence.page,
            advice=f"`zoo info {self.name}` says where to get it and where it is looked for. Name "
            f"a file with {parameter('weights')} PATH, or take {parameter('weights')} random to "
            "try things out.",
            mirrors=self.mirrors,
            embedded=DATA / self.checkpoint if self.embedded else None,
        )

    @property
    def native(self) -> tuple[int, int]:
        """(height, width) that positions were trained on, or else the usual ones."""
        return self.config.native or self.preprocessing.size

    @property
    def readable(self) -> tuple[Naming, ...]:
        """The names in which its checkpoints are read: publishers' in files and in memory, and the
        leaves' own paths."""
        in_memory = (naming.in_memory for naming in self.namings if naming.in_memory)
        return (*self.namings, *in_memory, LEAVES)

    def options_of(self, naming: str) -> tuple[str, ...]:
        """Return the options that a checkpoint with these names may have or not."""
        return self.options.get(naming, ())

    def config_for(self, naming: str) -> Config:
        """The model that a checkpoint with these names belongs to."""
        return self.published.get(naming, self.config)
