"""Studies that come with the package, as TOML files, and what is known of them."""
