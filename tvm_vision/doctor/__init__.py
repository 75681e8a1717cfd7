"""Whether this machine is well: what a network needs, checked one by one, each with its remedy.

No check needs another, and none can end the process: ``examine`` has them one after the other, and
what calls drivers runs in children.
"""
