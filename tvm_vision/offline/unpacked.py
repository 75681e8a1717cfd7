"""Mesa's drivers of a newer Debian, unpacked into a folder of their own: nothing is installed.

They come with the C library and all else that they need, so that any system runs them through
their own dynamic linker. Where from and whether they are genuine is apt's business: it is given the
machine's own mirror, the other suite's name, folders of its own and Debian's keys.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from ..whole_files import ScratchFolder, whole
from .finishing import finished

# The first Debian whose Mesa knows a phoenix without its hardware: that of the backports. What it
# needs comes from the stable suite below it.
SUITES = ("trixie", "trixie-backports")
PACKAGES = ("mesa-vulkan-drivers", "mesa-drm-shim", "libvulkan1", "libdrm-dev")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MANIFEST = "packages.json"
REMEDY = "python -m benchmarks.static --install brings them, on Debian"
# For each step: a slow line brings 60 MB in less, and a lock of apt's own is not waited for.
PATIENCE = 1800.0
# Of no use to a program: half of what is unpacked is left out where it is known.
_UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/bug")


@dataclass(frozen=True)
class Unpacked:
    """Drivers in a folder.

    Attributes:
        root: the folder, as it were the root of a Debian.
        versions: of the packages in it, by name.
    """

    root: Path
    versions: dict[str, str]

    @property
    def libraries(self) -> Path:
        """The folder of its libraries."""
        return next(self.root.glob("usr/lib/*-linux-gnu*"))

    @property
    def linker(self) -> Path:
        """Its dynamic linker, which starts programs with its libraries."""
        return next(self.libraries.glob("ld-linux-*.so.*"))


def folder() -> Path:
    """Where they are unpacked: $XDG_CACHE_HOME/tvm_vision/drivers, or below ~/.cache.

    Not in $TVM_VISION_CACHE_DIR: what is there can be made again without a network.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "tvm_vision" / "drivers"


def find() -> Unpacked | None:
    """What was unpacked before; None where nothing was, or where it is damaged."""
    root = folder()
    try:
        found = Unpacked(root, json.loads((root / MANIFEST).read_text()))
        return found if found.linker.exists() else None
    except (OSError, ValueError, StopIteration):
        return None


def install(tell: Callable[[str], object]) -> Unpacked:
    """Fetch and unpack the packages, in place of what was unpacked before.

    Raises InputError where this is no Debian, its mirror has not the suite, or nothing can be
    reached: with the line that apt says of it.
    """
    versions = unpack(folder(), PACKAGES, SUITES, tell)
    found = find()
    if found is None:
        raise InputError(
            f"drivers were unpacked into '{folder()}' and no dynamic linker is among them: "
            f"{', '.join(versions)}"
        )
    tell(f"unpacked {len(versions)} packages into {found.root}; nothing was installed")
    return found


def unpack(
    root: Path,
    packages: Sequence[str],
    suites: Sequence[str],
    tell: Callable[[str], object],
    architecture: str = "",
) -> dict[str, str]:
    """Fetch packages of Debian with what they need, and unpack them into a folder, in place of what
    was there.

    suites: the last one's versions are preferred. architecture: as dpkg names it; "" for this
    machine's.

    Returns the versions by name. Raises InputError as ``install`` does.
    """
    mirror = _mirror()
    with ScratchFolder() as scratch:
        options = _apt_folders(scratch, mirror, suites)
        if architecture:
            options += ["-o", f"APT::Architecture={architecture}"]
            options += ["-o", f"APT::Architectures={architecture}"]
        tell(f"reading the lists of {' and '.join(suites)}")
        _run(["apt-get", *options, "update", "-qq"], f"the lists of Debian {suites[0]}")
        tell(f"fetching {', '.join(packages)} and what they need, about 60 MB")
        wanted = ["-t", suites[-1], "install", "-y", "-qq", "--no-install-recommends"]
        _run(
            ["apt-get", *options, *wanted, "--download-only", *packages],
            f"{', '.join(packages)} of {suites[-1]}",
        )
        archives = sorted((scratch / "archives").glob("*.deb"))
        versions = _versions(archives)
        with whole(root) as fresh:
            fresh.mkdir()
            for archive in archives:
                _run(["dpkg-deb", "-x", str(archive), str(fresh)], f"unpacking {archive.name}")
            for name in _UNUSED:
                shutil.rmtree(fresh / name, ignore_errors=True)
            (fresh / MANIFEST).write_text(json.dumps(versions, indent=1))
    return versions


def _mirror() -> str:
    """The address of the mirror that this machine's apt has for Debian's own packages."""
    if shutil.which("apt-get") is None or not KEYRING.exists():
        raise InputError(
            "drivers without their hardware are unpacked from Debian's packages, and apt with "
            f"'{KEYRING}' is needed for that: run this on Debian, or in a container of it"
        )
    form = "$(ORIGIN) $(COMPONENT) $(REPO_URI)"
    command = ["apt-get", "indextargets", "--format", form, "Created-By: Packages"]
    listed = finished(command, PATIENCE, _late("the address of a Debian mirror"))
    for line in listed.stdout.splitlines():
        origin, component, address = line.split(" ", 2)
        if origin == "Debian" and component == "main" and "security" not in address:
            return address
    raise InputError(
        "the address of a Debian mirror is needed to fetch drivers, and apt has none yet: "
        "apt-get update"
    )


def _apt_folders(scratch: Path, mirror: str, suites: Sequence[str]) -> list[str]:
    """Options that have apt work in ``scratch`` alone, with one suite after the other."""
    for name in ("lists/partial", "archives/partial", "preferences"):
        (scratch / name).mkdir(parents=True)
    (scratch / "status").touch()
    sources = scratch / "sources.list"
    sources.write_text(
        "".join(f"deb [signed-by={KEYRING}] {mirror} {suite} main\n" for suite in suites)
    )
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::Etc::preferences": "-",
        "Dir::Etc::preferencesparts": scratch / "preferences",
        "Dir::State::lists": scratch / "lists",
        "Dir::State::status": scratch / "status",
        "Dir::Cache::archives": scratch / "archives",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Acquire::Languages": "none",
        # The folders are this user's, and another one could not write there.
        "APT::Sandbox::User": _user(),
        # What keeps a container small removes the archives as soon as they are there.
        "APT::Keep-Downloaded-Packages": "true",
    }
    # After those of the machine's own files, so that these count.
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


def _run(command: Sequence[str], what: str) -> None:
    plain = {**os.environ, "LC_ALL": "C"}
    done = finished(command, PATIENCE, _late(what), plain)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("E: ")]
        said = (lines or done.stderr.strip().splitlines() or ["no message"])[0]
        raise InputError(f"{what} cannot be had: {said.removeprefix('E: ')}")


def _late(what: str) -> InputError:
    return InputError(
        f"{what} cannot be had: there was no answer in {PATIENCE:g} s: look at the network and the "
        "mirror, then run it again"
    )


def _versions(archives: Sequence[Path]) -> dict[str, str]:
    versions = {}
    for archive in archives:
        name, version, _ = archive.name.split("_")
        versions[name] = version.replace("%3a", ":")
    return versions
