"""The model: what a stream's windows are, and which readings count, from the definitions alone."""
