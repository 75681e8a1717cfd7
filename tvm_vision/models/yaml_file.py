"""YAML that people write: names of classes, groups, a robot's model_config.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError
from ..file_kinds import EMPTY, JSON, TEXT, need
from ..plain_files import read_plain


def read_yaml(path: Path) -> Any:
    """What a file of YAML holds, of plain types. Raises InputError where it cannot be read."""
    import yaml

    need(path, "a file of YAML", TEXT, JSON, EMPTY)
    try:
        return yaml.safe_load(read_plain(path).decode("utf-8-sig"))
    except OSError as error:
        raise InputError(f"'{path}' cannot be read ({error.strerror}): check the path") from None
    except UnicodeDecodeError:
        raise InputError(f"'{path}' must be YAML, and is not text: save it as UTF-8") from None
    except RecursionError:
        raise InputError(
            f"'{path}' must be YAML, and is nested too deeply: check the file"
        ) from None
    except Exception as error:  # what makes values of texts raises every kind there is
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark else ""
        reason = getattr(error, "problem", None) or str(error) or "it cannot be parsed"
        raise InputError(f"'{path}' must be YAML{place}: {' '.join(reason.split())}") from None
