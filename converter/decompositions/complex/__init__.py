"""Represent complex numbers by real ones with a last axis of two: real and imaginary part.

Each primitive on complex numbers is decomposed into a short JAX function of both parts. Later
passes have no complex numbers.
"""

from converter.decompositions.complex import algebra, elementary, fourier
