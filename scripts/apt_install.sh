#!/usr/bin/env bash
# Installs the packages named, with apt-get as root or through sudo; one line says why it cannot.
set -euo pipefail

cannot() {
    echo "$1; please install: ${packages[*]}" >&2
    exit 1
}
packages=("$@")
command -v apt-get >/dev/null || cannot "this system has no apt-get"
as_root=()
if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null || cannot "installing needs root, and there is no sudo"
    as_root=(sudo)
fi
echo "installing with apt-get: ${packages[*]}"
"${as_root[@]}" apt-get update -qq || cannot "apt-get update failed"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null ||
    cannot "apt-get install failed"
