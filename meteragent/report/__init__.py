"""What a stream promises and costs, for people and programs."""
