"""Recognisers: each matches one macro structure in a canonicalized graph and replaces it by a
composite.

A structure that looks similar but cannot be proved equal is left as it is, with a near miss.
"""
