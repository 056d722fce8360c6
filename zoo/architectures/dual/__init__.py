"""A network for images beside one for texts, in one space of vectors."""
