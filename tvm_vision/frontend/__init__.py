"""Model files in, Relax modules and signatures out: one file a format.

Each importer simplifies the model, checks it and refuses, in one line, what cannot be compiled.
"""
