"""Networks of public packages and folders: each compiled, run, and held to another engine."""
