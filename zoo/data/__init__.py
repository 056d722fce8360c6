"""Data that the package brings along: weights of the models of digits, a photograph, licences."""
