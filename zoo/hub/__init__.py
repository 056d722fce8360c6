"""Built folders from a hub and to one, and `zoo.load`, which runs them."""
