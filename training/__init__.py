"""How weights were made that the package holds. Not a part of it: nobody needs this to use them."""
