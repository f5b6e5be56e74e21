"""What the agent, the collector and a crowd's operators share as processes."""
