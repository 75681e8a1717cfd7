"""Builds the native library for ThreadSanitizer and lets threads load and run networks in it.

``make thread-sanitizer`` runs it; the first time takes minutes. Backend, executor and runner are
instrumented. TVM's libraries, the loader and the drivers are not: what they alone do is left out
(tests/support/tsan.supp says what and why). Exit code 1 where there is a report, or a wrong result.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from support.faults import write_network  # noqa: E402

# GCC says of each copy of tvm_ffi's header object.h that the fence in its reference counts is not
# seen by ThreadSanitizer, thousands of times. Ours have none, and a report that it led to is seen.
FLAGS = "-fsanitize=thread -O1 -g -Wno-tsan"
SUPPRESSIONS = ROOT / "tests" / "support" / "tsan.supp"


def build(folder: Path) -> Path:
    """The program, in a folder of its own that is kept for the next time."""
    cmake = str(Path(sys.executable).with_name("cmake"))
    site = Path(sys.executable).parents[1]
    found = next(site.glob("lib/python3*/site-packages"))
    settings = {
        "TVM_VISION_SITE_PACKAGES": found, "TVM_VISION_TESTS": "ON", "TVM_VISION_OPENCV": "OFF",
        "CMAKE_BUILD_TYPE": "None", "CMAKE_CXX_FLAGS": FLAGS, "CMAKE_C_FLAGS": FLAGS,
    }  # fmt: skip
    given = [f"-D{name}={value}" for name, value in settings.items()]
    subprocess.run([cmake, "-S", ROOT / "cpp", "-B", folder, *given], check=True)
    subprocess.run([cmake, "--build", folder, "-j2", "--target", "threads"], check=True)
    return folder / "threads"


def main() -> int:
    """Build and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "tsan")
    options = parser.parse_args()
    program = build(options.build)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_network(folder)
        done = subprocess.run(
            [program, folder / "network.tar", str(options.threads), str(options.rounds)],
            env={
                **os.environ,
                "TSAN_OPTIONS": f"suppressions={SUPPRESSIONS}:halt_on_error=0:exitcode=66",
                "TVM_VISION_CACHE_DIR": str(folder / "cache"),
            },
            text=True,
            capture_output=True,
        )
    reports = done.stderr.count("WARNING: ThreadSanitizer")
    print(done.stderr + done.stdout + f"{reports} reports of ThreadSanitizer")
    return 1 if reports or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
