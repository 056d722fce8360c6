"""What a file says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import onnx_ir as ir

from converter.errors import SpecError


@dataclass(frozen=True)
class Metadata:
    """The fields of ONNX's ``ModelProto`` that say what a model is, and the graph's name.

    ``properties`` become ``metadata_props``, which ONNX Runtime shows as
    ``session.get_modelmeta().custom_metadata_map``.

    Raises:
        SpecError: a property is not text.
    """

    graph_name: str = "main_graph"
    producer_name: str = "jax-onnx-zoo"
    producer_version: str = ""
    domain: str = ""
    model_version: int = 0
    doc_string: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.properties.items():
            if not (isinstance(name, str) and isinstance(value, str)):
                raise SpecError(
                    f"metadata maps texts to texts, received {name!r}: {value!r}; "
                    f"write {str(name)!r}: {str(value)!r}"
                )

    def write(self, model: ir.Model) -> None:
        """Into a model, in place."""
        model.graph.name = self.graph_name
        model.producer_name = self.producer_name
        model.producer_version = self.producer_version or None
        model.domain = self.domain or None
        model.model_version = self.model_version or None
        model.doc_string = self.doc_string or None
        model.metadata_props.update(sorted(self.properties.items()))


Given: TypeAlias = Metadata | Mapping[str, str] | None


def metadata_of(given: Given) -> Metadata:
    """As it is, or with these properties."""
    return given if isinstance(given, Metadata) else Metadata(properties=given or {})
