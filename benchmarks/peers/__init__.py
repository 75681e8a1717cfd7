"""Our engine beside others on this machine, in one run: ``python -m benchmarks.peers``.

``engine_*.py`` are the engines, ``networks.py`` has the networks, ``__main__.py`` is the driver.
"""
