#!/usr/bin/env bash
# Installs the headers of the Python that is given, where they are missing: Debian and Ubuntu have
# them in a package of their own, and the code of ROS messages is compiled against them.
set -euo pipefail
python=$1
"$python" -c 'import sys, sysconfig, pathlib
sys.exit(not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists())' && exit 0
package=$("$python" -c 'import sys; print("python{}.{}-dev".format(*sys.version_info))')
echo "missing system package: $package (Python's headers, for the messages of ROS)"
"$(dirname "$0")/apt_install.sh" "$package"
