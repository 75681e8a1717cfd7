"""What the tests share: networks, packages, references, and programs that they start.

Importable as ``support``, in the processes that tests start too (see tests/conftest.py).
"""

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parents[1]
