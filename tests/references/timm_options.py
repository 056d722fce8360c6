"""Options of timm's vision transformers, and which of them no network of the zoo has.

`tests/golden/make_timm_options.py` wrote the facts where timm is.
"""

import json
from pathlib import Path
from typing import Any

FACTS = json.loads((Path(__file__).parents[1] / "golden" / "timm_options.json").read_text())

BLOCKS = (
    *("ParallelThingsBlock", "ResPostBlock", "ParallelScalingBlock", "DiffParallelScalingBlock"),
)

OPTIONS_REFUSED: dict[str, tuple[Any, ...]] = {
    "block_fn": BLOCKS,
    "norm_layer": ("RmsNorm(eps=1e-05)", "rmsnorm"),
    "final_norm": (False,),
    "attn_layer": ("diff",),
    "scale_attn_norm": (True,),
    "pool_include_prefix": (True,),
}
"""Options that no network of the zoo has."""

OTHER_POOLS = ("max", "avgmax")


def option_of(network: dict[str, Any]) -> str:
    """Return the option for which a network is refused; empty for one that is read."""
    if network["options"].get("global_pool") in OTHER_POOLS:
        return "global_pool"
    stated = FACTS["architectures"][network["settings"]["architecture"]]
    found = (name for name, values in OPTIONS_REFUSED.items() if stated.get(name) in values)
    return next(found, "")


def refusals(architecture: str) -> list[str]:
    """Return the options of an architecture that no network of the zoo has."""
    stated = FACTS["architectures"][architecture]
    return [name for name, values in OPTIONS_REFUSED.items() if stated.get(name) in values]


def option_rows() -> list[tuple[str, ...]]:
    """Return each option with its values that are read and those that are refused."""
    read: dict[str, set[str]] = {}
    refused: dict[str, set[str]] = {}
    for network in FACTS["networks"]:
        for name, value in network["options"].items():
            option = "global_pool" if name == "reset" else name
            rows = refused if option_of(network) == option else read
            rows.setdefault(option, set()).add(f"`{value}`")
    for name, values in OPTIONS_REFUSED.items():
        refused.setdefault(name, set()).update(f"`{value}`" for value in values)
    return [
        (
            f"`{name}`",
            ", ".join(sorted(read.get(name, ()))),
            ", ".join(sorted(refused.get(name, ()))),
        )
        for name in dict.fromkeys((*read, *refused))
    ]


def architecture_rows() -> list[tuple[str, str]]:
    """Return how many architectures are read, and which are refused, by option."""
    by_option: dict[str, list[str]] = {}
    for name in FACTS["architectures"]:
        by_option.setdefault(next(iter(refusals(name)), ""), []).append(f"`{name}`")
    read = by_option.pop("")
    listed = ((f"refused for `{option}`", ", ".join(names)) for option, names in by_option.items())
    return [("read", f"{len(read)} of {len(FACTS['architectures'])}"), *listed]
