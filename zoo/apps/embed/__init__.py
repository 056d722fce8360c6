"""Datasets of the vectors of many pictures, and the search in them."""
