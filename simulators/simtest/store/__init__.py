"""The disk of a world: the store's device, its files after a crash, and their copies."""
