"""Tools that run beside the agent, each with its own command; the agent needs none of them."""
