"""The messages that the agent sends: records, descriptors, totals, status and Home Assistant discovery."""
