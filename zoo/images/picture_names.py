"""Which files are pictures, by how their names end."""

from pathlib import PurePosixPath

from zoo.images.pictures import PICTURE_FORMATS, extensions

UNREAD = {
    **dict.fromkeys((".heic", ".heif", ".hif"), "HEIC"),
    **dict.fromkeys((".avif", ".avifs"), "AVIF"),
    **dict.fromkeys((".jxl",), "JPEG XL"),
    **dict.fromkeys((".jxr", ".wdp", ".hdp"), "JPEG XR"),
    **dict.fromkeys((".mpo",), "MPO, several JPEGs in one file"),
    **dict.fromkeys((".ico", ".icns", ".cur"), "icons"),
    **dict.fromkeys((".svg", ".svgz", ".eps", ".ps", ".ai", ".wmf", ".emf"), "drawings"),
    **dict.fromkeys((".psd", ".psb", ".xcf", ".kra"), "layers of a program that draws"),
    **dict.fromkeys((".exr", ".hdr", ".pfm"), "more than 16 bits"),
    **dict.fromkeys((".tga", ".pcx", ".sgi", ".dds", ".qoi", ".xbm", ".xpm"), "that ending"),
    **dict.fromkeys((".dng", ".cr2", ".cr3", ".crw", ".nef", ".nrw"), "a camera's raw data"),
    **dict.fromkeys((".arw", ".srf", ".sr2", ".orf", ".raf", ".rw2"), "a camera's raw data"),
    **dict.fromkeys((".pef", ".srw", ".x3f", ".3fr", ".iiq", ".kdc"), "a camera's raw data"),
}
"""Endings of pictures that are not read, and what pictures those are."""


def name_ending(name: str) -> str:
    """How a file's name ends, such as `.png`; empty where nothing says what it is."""
    return PurePosixPath(name).suffix.lower()


def may_be_picture(name: str) -> bool:
    """Whether a file is a picture by its name, is one that is not read, or has no ending."""
    ending = name_ending(name)
    return not ending or ending in UNREAD or ending in extensions()


def why_unread(name: str) -> str | None:
    """Why a file of this name is not read, in a sentence; None for one that is."""
    ending = name_ending(name)
    if ending in extensions():
        return None
    kind = f"pictures of {UNREAD[ending]}" if ending in UNREAD else "files without an ending"
    formats = ", ".join(PICTURE_FORMATS)
    return f"{name} is not read, as {kind} are not: save it as one of the formats {formats}."
