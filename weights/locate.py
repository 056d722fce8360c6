"""Where checkpoints usually lie."""

import os
from pathlib import Path

from weights.errors import WeightsNotFound


def folders() -> tuple[Path, ...]:
    """Folders that are searched, in order: the user's own, this one, the downloader's cache."""
    own = os.environ.get("ZOO_WEIGHTS_DIR")
    cache = Path.home() / ".cache" / "torch" / "hub" / "dinov3" / "weights"
    return ((Path(own).expanduser(),) if own else ()) + (Path.cwd(), cache)


def locate(file_name: str, licence_page: str, download_page: str) -> Path:
    """The first file of that name.

    **Raises** `WeightsNotFound`, which says where it looked and how to go on.
    """
    searched = folders()
    for folder in searched:
        if (folder / file_name).is_file():
            return folder / file_name
    raise WeightsNotFound(
        f"no {file_name} in {', '.join(map(str, searched))}"
        f"{'' if 'ZOO_WEIGHTS_DIR' in os.environ else ' (and ZOO_WEIGHTS_DIR is not set)'}. "
        f"Accept the licence ({licence_page}) and download it from {download_page}, "
        "or name a file with `--weights PATH`, or try things out with `--weights random`."
    )
