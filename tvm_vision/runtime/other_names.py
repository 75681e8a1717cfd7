"""What onnxruntime, LiteRT and others call parts of a loaded network, and what they are here."""

from __future__ import annotations

_INPUTS = "input_names, and info['inputs'] for shapes and types"
_RUN = "run(NAME=array), then get_output(0).numpy()"
OF_EXECUTORS = {
    **dict.fromkeys(("inputs", "get_inputs", "get_input_details"), _INPUTS),
    **dict.fromkeys(("get_outputs", "get_output_details"), "output_names, and info['outputs']"),
    **dict.fromkeys(("predict", "forward", "infer", "invoke"), _RUN),
    "set_tensor": "set_input(NAME, array)",
    "get_tensor": "get_output(0).numpy()",
    **dict.fromkeys(("names", "class_names", "stream"), "load_model(path), which looks at images"),
}  # fmt: skip
