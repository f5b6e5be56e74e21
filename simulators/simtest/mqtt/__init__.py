"""The brokers of a world, their side of MQTT, and the network to them, in bytes."""
