"""What all rooms share: units, terms, grids, names, problems, and the commit of one step of the core."""
