"""Every byte that leaves: records, descriptors, totals, status, discovery by Home Assistant."""
