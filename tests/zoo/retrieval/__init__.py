"""Tests of searching datasets of vectors."""
