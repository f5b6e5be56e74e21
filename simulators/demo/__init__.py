"""The demo: homes, broker, agent and receiver as processes, and what it prints and draws."""
