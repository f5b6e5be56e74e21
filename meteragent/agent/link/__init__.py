"""A stream's links to brokers: `source` takes messages in, `outlets` has a sink for each receiver."""
