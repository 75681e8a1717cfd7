"""``python -m tvm_vision``: the command ``tvm-vision``, where its folder is not on the path."""

from __future__ import annotations

from .tools.cli import main

main()
