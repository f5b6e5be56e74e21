"""Everything that leaves: records, descriptors, totals, status, and discovery messages for Home Assistant."""
