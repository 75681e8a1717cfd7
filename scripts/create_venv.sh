#!/usr/bin/env bash
# Creates the virtual environment $1 with Python 3.10, 3.11 or 3.12 (PYTHON names another).
set -euo pipefail
venv=$1
apt_install="$(dirname "$0")/apt_install.sh"

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
in_range() { case $1 in 3.10 | 3.11 | 3.12) ;; *) return 1 ;; esac; }

# Sets chosen and version to the first Python in range, and found to those that are not.
choose() {
    found="" chosen=""
    local candidate
    for candidate in ${PYTHON:-python3 python3.12 python3.11 python3.10}; do
        version=$(version_of "$candidate") || continue
        if in_range "$version"; then
            chosen=$candidate
            return
        fi
        found+="${found:+, }$candidate is $version"
    done
}

choose
if [[ -z $chosen && -z $found && -z ${PYTHON:-} ]]; then
    echo "missing system packages: python3, python3-venv (no Python was found)"
    "$apt_install" python3 python3-venv
    choose
fi
if [[ -z $chosen ]]; then
    echo "Python 3.10, 3.11 or 3.12 is needed; found: ${found:-none called ${PYTHON:-python3}}." \
        "Install one, or name it: make PYTHON=/path/to/python3.12" >&2
    exit 1
fi
[[ -z $found ]] || echo "using $chosen ($version), because $found"

if ! "$chosen" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "missing system package: python$version-venv (creates virtual environments)"
    "$apt_install" "python$version-venv"
fi
echo "creating $venv with $("$chosen" --version)"
"$chosen" -m venv --clear "$venv"
