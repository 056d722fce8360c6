"""Recognisers: each finds one macro structure in a simplified graph and names it.

A structure that looks right but cannot be proved is left alone, with a note.
"""
