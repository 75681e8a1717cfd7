"""Results of networks as lines, and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Result = dict[str, Any]
FAULTS = ("wrong", "failed", "crashed", "timeout")
OUTCOMES = {
    "right": "within the tolerance of `check`, or what the reference differs from itself by",
    "wrong": "ran, with another result",
    "ran": "ran; there is no reference for it",
    "refused": "not compiled: one line says why, and what to do",
    "failed": "an error that is no refusal",
    "crashed": "the process died",
    "timeout": "took too long",
}
_ORDER = ("package", "version", "file")


def summary_lines(results: Sequence[Result]) -> Iterator[str]:
    """A line for each result."""
    for result in results:
        words = [result["target"], result["outcome"], result["key"]]
        words += [f"error {result['error']:.1e}"] if "error" in result else []
        words += [f"{result['seconds']} s"] if "seconds" in result else []
        words += [result["message"]] if result["message"] else []
        words += [f"near tie: {result['ties']}"] if "ties" in result else []
        yield "  ".join(words)


def markdown(results: Sequence[Result], setting: str = "") -> str:
    """The page: outcomes by target, a table of networks, and what each refusal says. setting: a
    line that says what ran where."""
    targets = sorted({result["target"] for result in results}, reverse=True)
    by_network: dict[tuple[str, ...], dict[str, Result]] = {}
    for result in results:
        place = tuple(result[name] for name in _ORDER)
        by_network.setdefault(place, {})[result["target"]] = result
    parts = [
        "# Networks of public packages",
        "",
        "Generated; do not edit. To make it again, with the packages' wheels in a folder:",
        "",
        "    python -m tests.support.zoo build/wheels/*.whl --report docs/reference/networks.md",
        "",
        "Each file is run on random inputs and, where it takes one, on a photo, and held to",
        "onnxruntime without optimisations, or to LiteRT's plain kernels. *Error* is the largest",
        "of an output, relative to its largest value (of integers the share that differs); *same*",
        "the least share of places whose arg max is the same; seconds are those of importing and",
        "compiling. Right is within the tolerance of `tvm-vision check`, or within what the",
        "reference differs from itself by, with optimisations and without, and with inputs a",
        "millionth away, where networks that sort or choose may change; of quantized networks",
        "within twice that, as each of three may be that far from the exact result. A network that",
        "chooses (sorts, compares, suppresses) otherwise than the reference is compared once more",
        "with the reference choosing by our numbers: right then is a near tie. Streaming networks",
        "are held to it in their first frame.",
        "",
        *([setting, ""] if setting else []),
        *_counts(results, targets),
        *_table(by_network, targets),
        *_messages(by_network, targets),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _counts(results: Sequence[Result], targets: Sequence[str]) -> list[str]:
    rows = []
    for outcome, meaning in OUTCOMES.items():
        counts = [
            sum(r["target"] == target and r["outcome"] == outcome for r in results)
            for target in targets
        ]
        rows += [_row(outcome, *counts, meaning)] if any(counts) else []
    return [_row("outcome", *targets, "meaning"), _rule(len(targets) + 2), *rows, ""]


def _table(
    by_network: dict[tuple[str, ...], dict[str, Result]], targets: Sequence[str]
) -> list[str]:
    columns = [f"{target}{what}" for target in targets for what in ("", ": error", ": seconds")]
    rows = []
    for (package, version, file), found in sorted(by_network.items()):
        cells: list[Any] = []
        for target in targets:
            result = found.get(target, {})
            cells += [
                result.get("outcome", "-"),
                f"{result['error']:.1e}" if "error" in result else "-",
                result.get("seconds", "-"),
            ]
        kinds = next(iter(found.values())).get("operators") or {}
        same = [r["argmax"] for r in found.values() if r.get("argmax") is not None]
        agreement = f"{100 * min(same):.1f} %" if same else "-"
        name = file.rsplit("/", 1)[-1]
        rows.append(
            _row(f"{package} {version}".strip(), name, sum(kinds.values()), *cells, agreement)
        )
    header = _row("package", "file", "operators", *columns, "same")
    return ["## Networks", "", header, _rule(len(columns) + 4), *rows, ""]


def _messages(
    by_network: dict[tuple[str, ...], dict[str, Result]], targets: Sequence[str]
) -> list[str]:
    rows = []
    for (_, _, file), found in sorted(by_network.items()):
        said: dict[str, list[str]] = {}
        for target in targets:
            message = found.get(target, {}).get("message", "")
            said.setdefault(message, []).append(target)
        rows += [
            f"- `{file.rsplit('/', 1)[-1]}` ({', '.join(those)}): {message}"
            for message, those in said.items()
            if message
        ]
    return ["## What is said of the others", "", *rows, ""] if rows else []


def _row(*cells: Any) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _rule(columns: int) -> str:
    return "|" + "---|" * columns
