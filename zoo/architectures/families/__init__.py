"""Published models whose families have networks of several kinds."""
