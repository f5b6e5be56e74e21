"""The types that all rooms share: units, terms, grids, names, problems, and the commits of the core."""
