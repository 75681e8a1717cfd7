"""What an ONNX file of ``classifier-to-onnx`` says about itself: preparation and labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ...errors import InputError, PackageError
from ...package import Preprocessing
from ...package.fields import Fields, parse_object, text

METADATA_KEY = "tvm_vision.classifier"


def metadata_text(preprocessing: Preprocessing, labels: Sequence[str]) -> str:
    """The value under METADATA_KEY."""
    document = {"preprocessing": asdict(preprocessing), "labels": list(labels)}
    return json.dumps(document, ensure_ascii=False)


def read_metadata(path: Path) -> tuple[Preprocessing, tuple[str, ...]] | None:
    """(preparation of images, labels) of an ONNX file; None where it has no such metadata.

    None for what is no ONNX file too: who compiles it says what is wrong. Raises InputError for
    metadata of another form.
    """
    from ...frontend.onnx.light import load_light

    try:
        model = load_light(path)
    except Exception:  # protobuf raises every kind there is
        return None
    content = {entry.key: entry.value for entry in model.metadata_props}.get(METADATA_KEY)
    if content is None:
        return None
    try:
        fields = Fields(parse_object(content.encode()), METADATA_KEY)
        preprocessing = Preprocessing.from_json(fields.take("preprocessing"), METADATA_KEY)
        labels = fields.items("labels", lambda item, at: text(item, at, empty=True))
    except PackageError as error:
        raise InputError(
            f"the metadata of '{path}' must be as classifier-to-onnx writes them, and are not "
            f"({error}): export it again"
        ) from None
    return preprocessing, labels
