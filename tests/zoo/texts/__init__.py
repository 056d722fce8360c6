"""Texts as numbers of words, and files that take them."""
