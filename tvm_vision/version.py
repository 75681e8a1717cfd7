"""The version: the only place for it in Python; package.xml and CHANGELOG.md repeat it."""

__version__ = "0.1.0"
