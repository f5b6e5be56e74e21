"""Every byte that leaves: records, descriptors, totals, status."""
