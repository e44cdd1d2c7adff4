"""The engines of the command line: `local` (worker processes) and `ray` (a cluster)."""
