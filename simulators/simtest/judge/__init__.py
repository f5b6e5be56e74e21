"""The judge: what the agent did so far, and what must hold after each of its steps."""
