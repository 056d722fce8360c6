"""Forms of programs: the lines of which programs are composed, with their alternatives.

`steps` lists the forms, `draw` composes them at random, and `program` defines a program as data.
"""
