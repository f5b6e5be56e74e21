"""Tools that run next to the agent, each with its own command; the agent needs none of them."""
