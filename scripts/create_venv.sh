#!/usr/bin/env bash
# Creates the virtual environment $1 with Python 3.10, 3.11 or 3.12 (PYTHON names another).
set -euo pipefail
venv=$1

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
in_range() { case $1 in 3.10 | 3.11 | 3.12) ;; *) return 1 ;; esac; }

found=""
chosen=""
for candidate in ${PYTHON:-python3 python3.12 python3.11 python3.10}; do
    version=$(version_of "$candidate") || continue
    if in_range "$version"; then
        chosen=$candidate
        break
    fi
    found+="${found:+, }$candidate is $version"
done
if [[ -z $chosen ]]; then
    echo "Python 3.10, 3.11 or 3.12 is needed; found: ${found:-none of ${PYTHON:-python3}}." \
        "Install one (apt install python3 python3-venv), or name it: make PYTHON=/path/to/python" >&2
    exit 1
fi
[[ -z $found ]] || echo "using $chosen ($version), because $found"

if ! "$chosen" -c 'import ensurepip, venv' 2>/dev/null; then
    package="python$version-venv"
    echo "missing system package: $package (creates virtual environments)"
    as_root=()
    [[ $(id -u) -eq 0 ]] || as_root=(sudo)
    if ! { command -v apt-get >/dev/null && "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" apt-get install -y -qq --no-install-recommends "$package" >/dev/null; }; then
        echo "$chosen has no venv module and $package could not be installed: install it first" >&2
        exit 1
    fi
fi
echo "creating $venv with $("$chosen" --version)"
"$chosen" -m venv --clear "$venv"
