"""Results stay the same to the last bit, from run to run and from version to version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import golden_numbers

pytestmark = pytest.mark.usefixtures("device_info")
AGAIN = """
import json, sys
from support import golden_numbers
print(json.dumps(golden_numbers.hashes(sys.argv[1])))
"""


@pytest.mark.parametrize("kind", golden_numbers.TARGETS)
def test_where_nothing_changed_the_numbers_did_not(kind: str) -> None:
    """If they did on purpose: python -m support.golden_numbers, and a line in CHANGELOG.md."""
    here = golden_numbers.environment(kind)
    expected = golden_numbers.golden().get(here)
    if expected is None:
        pytest.skip(f"no golden numbers for {here}: python -m support.golden_numbers writes them")
    assert golden_numbers.hashes(kind) == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", golden_numbers.TARGETS)
def test_from_process_to_process(kind: str, tmp_path: Path) -> None:
    """With kernels that were kept, and without."""
    found = []
    for cache in ("one", "one", "", "two"):
        environment = {**os.environ, "TVM_VISION_CACHE_DIR": cache and str(tmp_path / cache)}
        command = [sys.executable, "-c", AGAIN, kind]
        done = subprocess.run(command, env=environment, text=True, capture_output=True, check=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    assert found == [found[0]] * 4
