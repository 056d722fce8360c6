"""Entries of the registry, and published results. This module is plain data without JAX.

Published results are other people's, except for the networks whose weights this project has
trained. A number is in an entry only if its source was read. Unknown results are left out.
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
"""Description and unit of the measurement, by task."""


@dataclass(frozen=True)
class ReportedResult:
    """A result on a data set, in the unit of its task, with the source that reports it."""

    task: Task
    data: str
    value: float
    source: str


def report_results(source: str, data: str, **values: float | None) -> tuple[ReportedResult, ...]:
    """Return the results of one model on one data set, which `source` reports.

    **Arguments:**

    - `data`: the name of the data set.
    - `values`: the value for each task, in the unit of `MEASURED_TASKS`. The name of an argument is
      that of the task with `_` in place of `-`, such as `k_NN=81.5`. None means that the value is
      not known.
    """
    names: dict[str, Task] = {name.replace("-", "_"): name for name in MEASURED_TASKS}
    rows = ((names[name], value) for name, value in values.items())
    return tuple(
        ReportedResult(task, data, value, source) for task, value in rows if value is not None
    )


IMAGENET, NYU, ADE20K = "ImageNet-1k", "NYU Depth v2", "ADE20k"

UNSTATED = "not stated"
"""Name of the licence of weights for which no terms are stated."""

NO_CLASS = "N/A"
"""Name of a number without a class, in lists of class names that have gaps."""

DATA = Path(__file__).parents[1] / "data"  # folder of embedded weights


@dataclass(frozen=True)
class Licence:
    """Terms under which the weights are published, with the pages that state them.

    **Arguments:**

    - `name`: the name of the licence.
    - `text`: the file in `data/licences` that is copied to everything that is made from the
      weights.
    - `page`: the page of the terms.
    - `download`: the page where the weights can be downloaded.
    """

    name: str
    text: str
    page: str
    download: str


class HubFields(TypedDict, total=False):
    """Fields of a `ModelInfo` that say where a model is on a hub."""

    repository: str
    hub: tuple[HubFile, ...]


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """Authors of models: the source of networks and weights, and the terms.

    **Arguments:**

    - `source`: the authors' repository on GitHub, or a description of another source.
    - `licence`: the terms of the weights.
    - `papers`: numbers of papers at arXiv.
    - `repository`: the name of a model's repository on a hub, with `{}` for the model's name there;
      empty if there is none.
    """

    source: str
    licence: Licence
    papers: tuple[str, ...] = ()
    repository: str = ""

    def hub_fields(self, model: str, file: str = TENSORS) -> HubFields:
        """Return the hub's fields of a model's row: its repository, and the file that is downloaded
        from it.

        **Arguments:**

        - `model`: the model's name in the repository's name.
        - `file`: the name of the file. For a large model in several files, this is their index.
        """
        repository = self.repository.format(model)
        return HubFields(repository=repository, hub=(HubFile(repository, file),))

    def report_results(
        self, page: str, data: str, **values: float | None
    ) -> tuple[ReportedResult, ...]:
        """Return the results of one model on one data set from a page of the authors, such as
        "README.md". `data` and `values` are as in the function `report_results`."""
        return report_results(f"{page} of {self.source}", data, **values)


@dataclass(frozen=True)
class PublishedNaming:
    """A naming in which a publisher's checkpoints are read, with the configuration of the network
    that they contain.

    **Arguments:**

    - `naming`: the names of tensors.
    - `config`: the network that checkpoints in these names are of.
    - `library_config`: the network that the publisher's library computes with the same weights, if
      it is a different one. Checkpoints that users have trained in the library belong to it.
    - `options`: options of the library that a user's checkpoint may have or not.
    """

    naming: Naming
    config: Config
    library_config: ViTConfig | None = None
    options: tuple[str, ...] = ()


def published_namings(config: Config, *namings: Naming) -> tuple[PublishedNaming, ...]:
    """Return a `PublishedNaming` for each naming, all with this configuration and no other
    fields."""
    return tuple(PublishedNaming(naming, config) for naming in namings)


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelInfo:
    """A model of the zoo: one row of the registry.

    **Arguments:**

    - `name`, `aliases`: our name, and other names that are accepted.
    - `family`: the name of its family.
    - `config`: the network that `zoo.create` builds: Equimo's if there is one, otherwise the
      publisher's.
    - `published`: the namings in which its checkpoints are read, each with its network, which may
      differ from `config` in details (another GELU, no head).
    - `preprocessing`: the preprocessing of its pictures. For a model of texts, it is that of the
      pictures that texts are compared with.
    - `publisher`: its authors, and the terms of the weights.
    - `checkpoint`: the name of the authors' file.
    - `digest`: the first hex digits of that file's sha256, if its name contains them; all digits if
      the file is embedded.
    - `archive`: the name of Equimo's file.
    - `repository`: the repository of transformers' or timm's files on the hub.
    - `hub`: files of the publisher that can be downloaded.
    - `mirrors`: copies of them that others publish.
    - `parameters`: the number of parameters that training adjusts, including the mask token and the
      unused norm of `untied_norms`, without rotary periods and frequencies.
    - `purpose`: the use of the model, if its task alone does not describe it.
    - `pooler`: a description of `pooler_output`, if there is one.
    - `labels`: the names of a classifier's classes, or the file in `zoo/data` that has one on each
      line. Without labels, classes are named by their numbers.
    - `examples`: descriptions of pictures that texts may give.
    - `embedded`: whether the file lies in `zoo/data`, from where it is always loaded.
    - `is_drawn`: whether visitors of a web page draw the picture.
    - `reported`: results that others have published.

    A field is empty if the model has nothing of the kind.
    """

    name: str
    family: str
    aliases: tuple[str, ...] = ()
    config: Config
    published: tuple[PublishedNaming, ...]
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
        """Raise `TypeError` if a row of `published` is not a `PublishedNaming`."""
        if invalid := [row for row in self.published if not isinstance(row, PublishedNaming)]:
            raise TypeError(
                f"{self.name} lists {invalid[0]!r:.60}: write `PublishedNaming(naming, config)` "
                "with the network of the files in this naming."
            )

    def __repr__(self) -> str:
        return f"<ModelInfo {self.name}: {self.config.description}, {self.parameters:,} parameters>"

    def _repr_html_(self) -> str:
        facts = {
            "family": self.family,
            "parameters": f"{self.parameters:,}",
            "architecture": self.config.description,
            **({"pooler_output": self.pooler} if self.pooler else {}),
            "checkpoint": self.weights_name,
            "licence": f"{self.licence.name}, {self.licence.page}",
            "source": self.source,
            **({"papers": ", ".join(self.paper_pages)} if self.papers else {}),
        }
        return html_table(self.name, facts.items())

    @property
    def as_unpublished(self) -> ModelInfo:
        """Copy of this row for a network of the same architecture in sizes that nobody has
        published. It is named after the family. It has no files, digest, results or aliases, and
        its terms are unknown. The other fields, also `config` and `parameters`, are unchanged."""
        without_files = replace(self, checkpoint="", archive="", repository="", hub=(), mirrors=())
        unnamed = replace(without_files, name=self.family, aliases=(), digest="", embedded=False)
        return replace(unnamed, reported=()).with_licence(Licence(UNSTATED, "", "", ""))

    def with_licence(self, licence: Licence) -> ModelInfo:
        """Return a copy of this row with other terms."""
        return replace(self, publisher=replace(self.publisher, licence=licence))

    @property
    def source(self) -> str:
        """The authors' repository on GitHub, or a description of another source."""
        return self.publisher.source

    @property
    def licence(self) -> Licence:
        """Terms of the weights."""
        return self.publisher.licence

    @property
    def papers(self) -> tuple[str, ...]:
        """Numbers of papers at arXiv."""
        return self.publisher.papers

    def with_name(self, name: str) -> ModelInfo:
        """Return a copy of this row with a name that a user chose, without aliases. Return the row
        unchanged if the name is empty."""
        return replace(self, name=name, aliases=()) if name else self

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes of `logits`, in order; empty without a classifier. If the row has no
        names, or not as many as there are classes, the names are "0", "1", …."""
        count, names = self.config.classes, self.labels
        if isinstance(names, str):
            names = tuple((DATA / names).read_text(encoding="utf-8").splitlines()) if count else ()
        return names if len(names) == count else tuple(map(str, range(count)))

    @property
    def paper_pages(self) -> tuple[str, ...]:
        """Addresses of the papers."""
        return tuple(f"https://arxiv.org/abs/{number}" for number in self.papers)

    @property
    def results_page(self) -> str:
        """Page on which the authors publish results: the page of the download if it is on GitHub,
        or else the authors' repository on GitHub; empty if there is neither."""
        github = "https://github.com/"
        if self.licence.download.startswith(github):
            return self.licence.download
        return github + self.source if re.fullmatch(r"[\w.-]+/[\w.-]+", self.source) else ""

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the model: `name`, then `aliases`, then the repository on a hub if there is
        one."""
        return tuple(filter(None, (self.name, *self.aliases, self.repository)))

    @property
    def weights_name(self) -> str:
        """Name of the file to ask the user for if there are no weights: the authors' file, or else
        the repository on a hub, or else Equimo's file."""
        return self.checkpoint or self.repository or self.archive

    @property
    def recognised_files(self) -> tuple[str, ...]:
        """Names of files by which this model is recognised: the authors' file, then Equimo's. A
        file that does not exist is left out."""
        return tuple(filter(None, (self.checkpoint, self.archive)))

    @property
    def published_files(self) -> PublishedFiles:
        """File names and addresses under which the model's weights are searched on this computer
        and downloaded."""
        return PublishedFiles(
            name=self.weights_name,
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
    def native_size(self) -> tuple[int, int]:
        """(height, width) of the pictures on which positions were trained, or else the size of the
        preprocessing."""
        return self.config.native_size or self.preprocessing.size

    @property
    def namings(self) -> tuple[Naming, ...]:
        """The namings in which its checkpoints are published, in the order of `published`."""
        return tuple(row.naming for row in self.published)

    @cached_property
    def readable_namings(self) -> tuple[PublishedNaming, ...]:
        """All namings in which a checkpoint of this model can be read, each with the network that
        it contains.

        They are, in this order: `published`; for each naming with `Naming.in_memory`, the names in
        the publisher's module in memory; and the paths of the leaves of `config`.
        """
        pairs = ((row.naming.in_memory, row) for row in self.published)
        in_memory = (replace(row, naming=naming) for naming, row in pairs if naming)
        return (*self.published, *in_memory, PublishedNaming(LEAVES, self.config))

    def config_for(self, name: str) -> Config:
        """Return the configuration of the network of the checkpoints in the naming with this name:
        the first in `readable_namings`. **Raises** `KeyError` if the model has no checkpoints in
        it."""
        for row in self.readable_namings:
            if row.naming.name == name:
                return row.config
        raise KeyError(f"{self.name} has no checkpoints in the names of {name}")

    def with_config(self, config: Config) -> ModelInfo:
        """Return a copy of this row with this configuration, for the row itself and for each of its
        published namings. The `library_config` of a naming is kept."""
        published = tuple(replace(row, config=config) for row in self.published)
        return replace(self, config=config, published=published)
