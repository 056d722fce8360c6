"""Complex numbers as real ones with a trailing axis of two: the real part, the imaginary part.

What a primitive does to them is a short JAX function of both parts, by which decomposition replaces
the primitive: no later pass knows of complex numbers.
"""

from converter.decompositions.complex import algebra, elementary, fourier
