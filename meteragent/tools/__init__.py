"""Tools beside the agent: each is a command, and the agent runs without any of them."""
