"""What a configuration means: units, terms, grids, names, and what one step of the core commits."""
