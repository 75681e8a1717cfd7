"""Run a command of this project on a driver of Vulkan that is not installed, with all it starts.

  python scripts/on_driver.py lavapipe -m pytest tests/vulkan tests/demo/test_demo_network.py
  python scripts/on_driver.py FOLDER/vk_swiftshader_icd.json -m tvm_vision demo

lavapipe is the newer one that ``make static-drivers`` unpacks (its Mesa has cooperative matrices of
8x8x8); anything else is the JSON file of a driver that runs with this system's C library. What
follows is given to Python.

An unpacked driver needs its own C library, so that Python has to be started by its own dynamic
linker, and so does each process that a test starts: they get an interpreter that does that, in a
virtual environment beside the drivers, with this one's packages.
"""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
from pathlib import Path

from tvm_vision.errors import TvmVisionError
from tvm_vision.offline import unpacked
from tvm_vision.whole_files import write_whole

LAVAPIPE = "lavapipe"
# With AVX2 its compiler (LLVM 19 of Debian's backports) gets atan and fmod of float32 wrong.
SOUND = ("GALLIUM_OVERRIDE_CPU_CAPS", "avx")


def own_library() -> list[str]:
    """What makes the linker take this Python's own library, where it is one: of another release
    that lies in the system's folders it would take the C part alone, and not what is in Python."""
    folder, name = (sysconfig.get_config_var(key) for key in ("LIBDIR", "INSTSONAME"))
    path = Path(folder or "", name or "")
    shared = sysconfig.get_config_var("Py_ENABLE_SHARED") and path.is_file()
    return ["--preload", str(path)] if shared else []


def interpreter(found: unpacked.Unpacked) -> Path:
    """A Python of this one's packages that runs with the libraries of unpacked drivers."""
    own = Path(sys.prefix)
    made = found.root.parent / "interpreters" / own.as_posix().strip("/").replace("/", "-")
    (made / "bin").mkdir(parents=True, exist_ok=True)
    write_whole(made / "pyvenv.cfg", (own / "pyvenv.cfg").read_bytes())
    for name in ("lib", "lib64"):
        if not (made / name).is_symlink():
            (made / name).symlink_to(own / "lib")
    system = Path("/usr/lib") / found.libraries.name
    command = [
        found.linker, *own_library(), "--library-path", f"{found.libraries}:{system}",
        Path(sys.executable).resolve(),
    ]  # fmt: skip
    words = shlex.join(map(str, command[:1]))
    rest = shlex.join(map(str, command[1:]))
    # By its name Python finds the virtual environment, and tests the interpreter for processes.
    text = f'#!/bin/sh\nexec {words} --argv0 "$0" {rest} "$@"\n'
    path = made / "bin" / "python"
    write_whole(path, text.encode())
    path.chmod(0o755)
    return path


def main() -> None:
    """Becomes the command."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    driver, arguments = sys.argv[1], sys.argv[2:]
    python = Path(sys.executable)
    if driver == LAVAPIPE:
        found = unpacked.find()
        if found is None:
            sys.exit(
                f"no newer lavapipe was unpacked into '{unpacked.folder()}': make static-drivers"
            )
        description = found.root / "usr/share/vulkan/icd.d/lvp_icd.json"
        python = interpreter(found)
        os.environ.setdefault(*SOUND)
    else:
        description = Path(driver).resolve()
    if not description.is_file():
        sys.exit(f"the JSON file of a driver is needed, and '{description}' is not there")
    # The second name is that of loaders before 1.3.207.
    os.environ.update(dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), str(description)))
    os.execv(python, [str(python), *arguments])


if __name__ == "__main__":
    try:
        main()
    except TvmVisionError as error:
        sys.exit(str(error))
