"""Pickles in PyTorch's layout, written operation by operation, so that a test can falsify any part.

Each function returns bytes of pickle operations.
"""

import struct

ONE_SIZE = b"K\x01\x85"
"""The pickle operations of the tuple (1,)."""


def text(characters):
    """Return the pickle operation of a string."""
    return b"X" + struct.pack("<I", len(characters)) + characters.encode()


def pickle_storage(kind=b"FloatStorage", key="0", count=b"K\x01"):
    """Return the pickle operations of a storage of `count` numbers in the member `key`."""
    kind_and_key = b"ctorch\n" + kind + b"\n" + text(key)
    return b"(" + text("storage") + kind_and_key + text("cpu") + count + b"tQ"


def pickle_tensor(shape=ONE_SIZE, strides=ONE_SIZE, storage=None):
    """Return the pickle operations of a tensor. The arguments are the operations of its parts."""
    parts = (pickle_storage() if storage is None else storage) + b"K\x00" + shape + strides
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + parts + b"tR"


def pickle_table(*items):
    """Return a pickle of a dictionary. The arguments are the pickle operations of its keys and
    values, alternately."""
    return b"\x80\x02}(" + b"".join(items) + b"u."


def pickle_one_tensor(**parts):
    """Return a pickle of a dictionary with the tensor `a`. The parts are the arguments of
    `pickle_tensor`."""
    return pickle_table(text("a"), pickle_tensor(**parts))
