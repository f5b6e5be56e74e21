"""Reports on a stream's promise and its cost, for people and programs."""
