"""The table and the picture of `utility`: promised and measured errors."""
