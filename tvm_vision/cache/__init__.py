"""What was compiled, kept in files for all processes of a user: kernels, and whole packages."""
