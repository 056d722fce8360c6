"""Entries of the registry and published results: plain data without JAX.

Published results are others', except for the networks whose weights this project has trained. A
number is in an entry only if its source was read; where nothing is known, there is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, TypedDict

from weights.containers.safetensors import TENSORS
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


class OnHub(TypedDict, total=False):
    """Fields of an entry that say where a model is on a hub."""

    repository: str
    hub: tuple[HubFile, ...]


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """Authors of models: where networks and weights come from, and under which terms.

    `source` is their repository on GitHub, or says where else the networks come from; `papers` are
    numbers at arXiv. `repository` is what a model's repository on a hub is called, with `{}` for
    the name that it has there; they may have none.
    """

    source: str
    licence: Licence
    papers: tuple[str, ...] = ()
    repository: str = ""

    def on_hub(self, model: str, file: str = TENSORS) -> OnHub:
        """Where a model is on the hub, and the file that is downloaded from there; of a large model
        in several files the table of these."""
        repository = self.repository.format(model)
        return OnHub(repository=repository, hub=(HubFile(repository, file),))

    def reported(self, page: str, data: str, **values: float | None) -> tuple[ReportedResult, ...]:
        """Results on some data on a page of the source, as of `reported`."""
        return reported(f"{page} of {self.source}", data, **values)


@dataclass(frozen=True)
class Published:
    """Names of a publisher's checkpoints, and the network that files in these names are of.

    `library` is the network that the publisher's library computes with the same weights, where it
    is another: what somebody trained there belongs to that. `options` are those of the library that
    somebody's checkpoint may have or not.
    """

    naming: Naming
    config: Config
    library: ViTConfig | None = None
    options: tuple[str, ...] = ()


def same_network(config: Config, *namings: Naming) -> tuple[Published, ...]:
    """The names of several publishers, files in all of which are of the same network."""
    return tuple(Published(naming, config) for naming in namings)


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelInfo:
    """One model of the zoo.

    `config` is the network that `zoo.create` builds: Equimo's, or else the publisher's. `published`
    are the names in which its checkpoints are read, each with the network that they are of, which
    may differ in detail (another GELU, no head). In other names there are none.

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
    what may be in them, in words. `reported` is how well others found it to do. `purpose`
    says what the model is for, where its task alone would say too little. Where it `is_drawn`,
    visitors of a page draw what it takes.
    """

    name: str
    family: str
    aliases: tuple[str, ...] = ()
    config: Config
    published: tuple[Published, ...]
    preprocessing: Preprocessing
    publisher: Publisher
    checkpoint: str = ""
    digest: str = ""
    archive: str = ""
    repository: str = ""
    hub: tuple[HubFile, ...] = ()
    mirrors: tuple[HubFile, ...] = ()
    parameters: int
    purpose: str = ""
    pooler: str = ""
    labels: str | tuple[str, ...] = ()
    examples: tuple[str, str, str] = ("a cat", "a dog", "a car")
    embedded: bool = False
    is_drawn: bool = False
    reported: tuple[ReportedResult, ...] = ()

    def __post_init__(self) -> None:
        """**Raises** `TypeError` for names without the network that they are of."""
        if bare := [each for each in self.published if not isinstance(each, Published)]:
            raise TypeError(
                f"{self.name} lists {bare[0]!r:.60}: say `Published(naming, config)`, for files in "
                "these names are of one network."
            )

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
        return replace(own, reported=()).under(Licence(UNSTATED, "", "", ""))

    def under(self, licence: Licence) -> ModelInfo:
        """The same under other terms."""
        return replace(self, publisher=replace(self.publisher, licence=licence))

    @property
    def source(self) -> str:
        """The authors' repository on GitHub, or where else the network comes from."""
        return self.publisher.source

    @property
    def licence(self) -> Licence:
        """Terms of the weights."""
        return self.publisher.licence

    @property
    def papers(self) -> tuple[str, ...]:
        """Numbers at arXiv."""
        return self.publisher.papers

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
    def namings(self) -> tuple[Naming, ...]:
        """The names in which its checkpoints are published."""
        return tuple(each.naming for each in self.published)

    @cached_property
    def readable(self) -> tuple[Published, ...]:
        """The names in which its checkpoints are read, and the networks that they are of:
        publishers' names in files and in memory, and the paths of `config`'s own leaves."""
        inner = ((each.naming.in_memory, each) for each in self.published)
        in_memory = (replace(each, naming=naming) for naming, each in inner if naming)
        return (*self.published, *in_memory, Published(LEAVES, self.config))

    def config_for(self, name: str) -> Config:
        """The network of the checkpoints of a publisher or library. **Raises** `KeyError` for one
        that has none."""
        for each in self.readable:
            if each.naming.name == name:
                return each.config
        raise KeyError(f"{self.name} has no checkpoints in the names of {name}")

    def of_network(self, config: Config) -> ModelInfo:
        """The entry of another network of its architecture, in whatever names."""
        published = tuple(replace(each, config=config) for each in self.published)
        return replace(self, config=config, published=published)
