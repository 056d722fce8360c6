"""Contact sheets: what is written below the pictures."""

import unicodedata

import numpy as np
import pyarrow as pa

from tests.vector_datasets import table_of, write_dataset
from zoo.font import font
from zoo.retrieval.contact_sheet import CELL_SIDE, GAP, TEXT_HEIGHT, SheetCell, contact_sheet
from zoo.retrieval.vector_table import open_vectors

KEYS = ("é", "à", "ß", "ž", unicodedata.normalize("NFD", "é"))


def test_keys_have_their_accents(tmp_path):
    """No two letters are one box, and an accent that a file's name keeps apart is on its letter."""
    table = table_of(KEYS, np.ones((len(KEYS), 4), np.float16))
    pictures = pa.array([b""] * len(KEYS), pa.binary())
    write_dataset(tmp_path / "d.lance", [table.append_column("thumbnail", pictures)])
    cells = [SheetCell(row, 1.0) for row in range(len(KEYS))]
    sheet = np.asarray(contact_sheet(open_vectors(tmp_path / "d.lance"), [cells], None))
    top = GAP + CELL_SIDE
    below = sheet[top : top + TEXT_HEIGHT // 2]
    words = [below[:, GAP + row * (CELL_SIDE + GAP) :][:, :CELL_SIDE] for row in range(len(KEYS))]
    assert len({word.tobytes() for word in words}) == 4 and (words[0] == words[-1]).all()


def test_letters_of_europe_are_none_of_them_a_box():
    letters = font(12)
    box = bytes(letters.getmask("\uffff"))
    for text in ("àçéîñöøßþÿ", "ąćđěğłňőřşťůźž", "αβγδέώ", "абвгжщыя", "ảạẽ", "…“”€"):
        assert all(bytes(letters.getmask(letter)) != box for letter in text)
