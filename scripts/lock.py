"""What an installation is made of: requirements.lock, sbom.cdx.json, the table of docs/security.md.

``make lock`` calls it, with uv and cyclonedx-py in an environment of their own. requirements.lock
has every package that `tvm_vision[bag,sign,track]` brings, in the versions of constraints.txt, with
the SHA-256 of each of its files: for Linux, Python 3.10 to 3.12. sbom.cdx.json says the same in
CycloneDX 1.6, with licences, of the environment that it is called in.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK, SBOM, PAGE = ROOT / "requirements.lock", ROOT / "sbom.cdx.json", ROOT / "docs/security.md"
EXTRAS = ("bag", "sign", "track")
MARKS = ("<!-- dependencies -->\n", "<!-- end -->")
# How those spell it that do not use SPDX's names.
SPDX = {
    "Apache Software License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "BSD 2-Clause License": "BSD-2-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
}


def locked() -> dict[str, str]:
    """Packages of requirements.lock and their versions."""
    found = re.findall(r"^([a-z0-9-]+)==(\S+)", LOCK.read_text("utf-8"), re.MULTILINE)
    return dict(found)


def write_lock(uv: Path) -> None:
    """requirements.lock, from pyproject.toml and constraints.txt."""
    extras = [word for name in EXTRAS for word in ("--extra", name)]
    subprocess.run(
        [
            *(str(uv), "pip", "compile", "pyproject.toml", "-c", "constraints.txt", *extras),
            *("--generate-hashes", "--universal", "--python-version", "3.10", "--upgrade"),
            *("--no-header", "--no-annotate", "--quiet", "-o", str(LOCK)),
        ],
        cwd=ROOT,
        check=True,
    )


def write_sbom(cyclonedx: Path) -> None:
    """sbom.cdx.json: of what is installed that which is locked."""
    made = subprocess.run(
        [
            *(str(cyclonedx), "environment", sys.executable, "--pyproject", "pyproject.toml"),
            *("--output-reproducible", "--spec-version", "1.6", "--of", "JSON", "-o", "-"),
        ],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    )
    names = locked()
    document = json.loads(made.stdout)
    kept = [part for part in document["components"] if canonical(part["name"]) in names]
    for part in kept:
        # Where they were downloaded from here.
        part.pop("externalReferences", None)
        part.setdefault("licenses", [{"license": {"name": licence(part["name"])}}])
    document["components"] = kept
    root = document["metadata"]["component"]["bom-ref"]
    refs = {root, *(part["bom-ref"] for part in kept)}
    document["dependencies"] = [
        {**each, "dependsOn": [ref for ref in each.get("dependsOn", []) if ref in refs]}
        for each in document["dependencies"]
        if each["ref"] in refs
    ]
    SBOM.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", "utf-8")


def table() -> str:
    """Name, version and licence of what is locked, as a table."""
    lines = ["| package | version | licence |", "|---|---|---|"]
    for name, version in locked().items():
        lines.append(f"| {name} | {version} | {licence(name)} |")
    return "\n".join(lines) + "\n"


def licence(name: str) -> str:
    """As a package says it: SPDX where it can be told; "?" where it is not installed here."""
    try:
        said: Any = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return "?"
    classes = [c.rpartition(" :: ")[2] for c in said.get_all("Classifier") or () if "License" in c]
    texts = [said.get("License-Expression"), *classes, said.get("License")]
    word = next((text for text in texts if text), "?").splitlines()[0]
    return SPDX.get(word, word)


def canonical(name: str) -> str:
    """A package's name as PEP 503 has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def write_page() -> None:
    """The table of docs/security.md. A licence that cannot be told here stays as it was."""
    begin, end = MARKS
    before, _, rest = PAGE.read_text("utf-8").partition(begin)
    old, _, after = rest.partition(end)
    known = dict(re.findall(r"^\| (\S+) \| \S+ \| ([^?|\n]+) \|$", old, re.MULTILINE))
    new = re.sub(
        r"^\| (\S+) \| (\S+) \| \? \|$",
        lambda row: f"| {row[1]} | {row[2]} | {known.get(row[1], '?')} |",
        table(),
        flags=re.MULTILINE,
    )
    PAGE.write_text(before + begin + new + end + after, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", type=Path, help="folder with uv and cyclonedx-py")
    tools = parser.parse_args().tools
    write_lock(tools / "uv")
    write_sbom(tools / "cyclonedx-py")
    write_page()


if __name__ == "__main__":
    main()
