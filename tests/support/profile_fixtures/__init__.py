"""Messages of known devices, of our own making: one module a family, each with its `CASES`."""
