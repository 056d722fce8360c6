"""Recognisers: each matches one macro structure in a canonicalized graph and replaces it by a
composite.

If a structure looks similar but cannot be proved to be equal, it is not changed, and a near miss is
recorded.
"""
