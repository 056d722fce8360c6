"""Data in this package: weights of the models of digits, a photograph, class names and licences."""
