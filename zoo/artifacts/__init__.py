"""Folders that others download: built, described and audited."""
