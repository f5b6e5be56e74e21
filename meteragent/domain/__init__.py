"""The meaning of a configuration: units, terms, grids, names, and the commit of one step of the core."""
