"""Archives and streams of readings on Apache Spark: the archive's kernel, its ledger, its key."""
