"""Where and how compiled networks run. Needs TVM's runtime only, never its compiler."""
