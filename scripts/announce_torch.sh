#!/usr/bin/env bash
# Says how large the download of PyTorch will be: pip is asked what it would take, nothing is loaded.
set -euo pipefail
python=$1
plan=$("$python" -m pip install --disable-pip-version-check --dry-run --ignore-installed \
    -c constraints.txt torch 2>/dev/null | grep '^Would install' || true)
if [[ $plan == *nvidia* ]]; then
    echo "installing PyTorch (with CUDA: no CPU build was found), about 3 GB to download;" \
        "it is needed once, to export the model to ONNX"
else
    echo "installing PyTorch (CPU build), about 0.2 GB to download;" \
        "it is needed once, to export the model to ONNX"
fi
