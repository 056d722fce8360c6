"""Networks that find areas, and what is in them."""
