"""Lets Vulkan fail in every way at every call of a network's life, and writes what came of it.

``make faults`` runs it. The table goes to docs/reliability.md, between its marks. Some minutes;
``--memory`` takes one kind of memory alone. Exit code 1 where something is not as it should be.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from scripts.markdown_tables import document  # noqa: E402
from support.faults import MEMORY, lives, problems, summary, table, write_kernel, write_network  # noqa: E402
from support.loaders import compile_loader  # noqa: E402

DOCUMENT = ROOT / "docs" / "reliability.md"
PLANS = ("start", "calls", "lost", "hang", "tune")


def main() -> int:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", choices=[*MEMORY, "all"], default="all")
    parser.add_argument("--write", action="store_true", help="write the table to the document")
    options = parser.parse_args()
    kinds = list(MEMORY) if options.memory == "all" else [options.memory]
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_network(folder)
        write_kernel(folder)
        loader = compile_loader("faulty_loader", folder)
        for memory in kinds:
            for plan in PLANS:
                some = lives(folder, loader, plan, memory)
                print(f"{memory}, {plan}: {len(some)} faults", flush=True)
                found += some
    wrong = [line for life in found for line in problems(life)]
    print("\n".join(wrong) or "all as it should be")
    text = f"{summary(found)}\n\n{table(found)}"
    print(text)
    if options.write:
        DOCUMENT.write_text(document(DOCUMENT.read_text(), {"faults": lambda: text}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
