"""Commands killed, or without room, at any write: ``python -m tests.support.durability``."""
