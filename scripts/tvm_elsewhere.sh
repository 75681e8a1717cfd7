#!/usr/bin/env bash
# Unpacks TVM's wheels for the processor $2 (aarch64) into the folder $3, with the Python $1: headers and
# runtime libraries, to build for that processor what links them. The compiler of 90 MB goes again.
set -euo pipefail
python=$1 machine=$2 folder=$3
cd "$(dirname "$0")/.."
case $machine in
x86_64 | aarch64) ;;
*)
    echo "TVM's wheels are for x86_64 and aarch64, found HOST=$machine: packages for it are made" \
        "('compile --host $machine'), and nothing of TVM's is there that would run them" >&2
    exit 1
    ;;
esac
if [[ $machine != "$(uname -m)" ]] && ! command -v "$machine-linux-gnu-g++" >/dev/null; then
    echo "missing system package: g++-$machine-linux-gnu (compiles for $machine)"
    scripts/apt_install.sh "g++-${machine//_/-}-linux-gnu"
fi
echo "fetching TVM for $machine into $folder: about 100 MB to download from PyPI"
rm -rf "$folder"
mkdir -p "$folder/wheels"
"$python" -m pip download -q --disable-pip-version-check -c constraints.txt -d "$folder/wheels" \
    --platform "manylinux_2_28_$machine" --only-binary=:all: --no-deps apache-tvm apache-tvm-ffi
for wheel in "$folder"/wheels/*.whl; do
    "$python" -m zipfile -e "$wheel" "$folder"
done
rm -r "$folder/wheels" "$folder/tvm/lib/libtvm_compiler.so"
