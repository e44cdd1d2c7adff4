"""The engines: `local` (worker processes), `ray` (a cluster), `inline` (this process)."""
