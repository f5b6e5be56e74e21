"""The model: a stream's windows, and the reading that applies at each time, from the definitions alone."""
