"""``tvm_vision.compile_fleet``: one package for the devices of a whole team."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from . import api
from .api import PathLike
from .errors import InputError
from .package import Fleet, read_package, write_fleet
from .package.files import need_package_place
from .whole_files import ScratchFolder


def compile_fleet(
    model: Any,
    output: PathLike,
    *,
    targets: Sequence[Any],
    names: Sequence[str] = (),
    progress: Callable[[str], object] | None = None,
    **options: Any,
) -> Fleet:
    """Compile a model for several devices, and write one package that serves all of them.

    What is the same for several, weights above all, is stored once; loading reads the variant for
    the device that is there and nothing of the others.

    targets: one or more, each as for ``tvm_vision.compile``. names: what each variant is called;
        its target where not given. model, output, options: as for ``tvm_vision.compile``.

    Raises InputError for targets of which two have one name, and what ``tvm_vision.compile`` does.
    """
    called = list(names) or [target_name(target) for target in targets]
    if not called or len(set(called)) < len(called) or len(called) != len(targets):
        raise InputError(
            "targets of different names are needed, and a name for each, found "
            f"{', '.join(called) or 'none'} for {len(targets)} targets"
        )
    need_package_place(Path(output))
    tell = progress or (lambda words: None)
    with ScratchFolder() as folder, ExitStack() as opened:
        packages = []
        for number, (name, target) in enumerate(zip(called, targets, strict=True)):
            path = api.compile(
                model,
                folder / f"{number}.tar",
                target=target,
                progress=partial(_tell, tell, name),
                **options,
            )
            packages.append((name, opened.enter_context(read_package(path))))
        tell(f"writing {output}")
        return write_fleet(output, packages)


def _tell(tell: Callable[[str], object], name: str, words: str) -> None:
    tell(f"{name}: {words}")


def target_name(target: Any) -> str:
    """What a variant is called: its target as it is written, a description's file without folder
    and ending, of JSON or a tvm.target.Target the device's name or the kind."""
    text = os.fspath(target) if isinstance(target, (str, os.PathLike)) else ""
    if text and not text.startswith("{"):
        return Path(text).stem if text.endswith(".json") else text
    given = target if isinstance(target, dict) else json.loads(str(target))
    return str(given.get("device_name") or given.get("kind", "target"))
