#!/usr/bin/env bash
# Installs the system packages that are missing, on Debian and Ubuntu through apt; says which, why.
# Without the required ones nothing can be built: exit 1. Without the others it runs on the CPU.
set -euo pipefail
PATH="$PATH:/usr/sbin:/sbin"

has_file() { compgen -G "$1" >/dev/null; }
has_header() { echo '#include <vulkan/vulkan_core.h>' | "${CXX:-g++}" -x c++ -E - >/dev/null 2>&1; }
# No pipe: with pipefail, ldconfig's complaint about a reader that left would count as a no.
has_loader() { [[ $(ldconfig -p 2>/dev/null) == *libvulkan.so.1* ]]; }
has_driver() {
    [[ -n "${VK_ICD_FILENAMES:-}${VK_DRIVER_FILES:-}" ]] ||
        has_file '/usr/share/vulkan/icd.d/*.json' || has_file '/etc/vulkan/icd.d/*.json'
}
has_layer() {
    [[ -n "${VK_LAYER_PATH:-}" ]] ||
        has_file '/usr/share/vulkan/explicit_layer.d/*khronos_validation*.json' ||
        has_file '/etc/vulkan/explicit_layer.d/*khronos_validation*.json'
}

required=()
optional=()
need() { # list, package, reason, check…
    local -n list=$1
    local package=$2 reason=$3
    shift 3
    "$@" && return
    list+=("$package")
    echo "missing system package: $package ($reason)"
}
has_compiler() { command -v "${CXX:-g++}" >/dev/null; }
need required g++ "compiles the native library" has_compiler
need required libvulkan-dev "Vulkan's types for the native library" has_header
need optional libstb-dev "reads images for the runner without Python, which the tests build" \
    has_file '/usr/include/stb/stb_image.h'
need optional libssl-dev "checks signatures for the runner without Python, which the tests build" \
    has_file '/usr/include/openssl/evp.h'
need optional libvulkan1 "the Vulkan loader" has_loader
need optional mesa-vulkan-drivers "Vulkan drivers: Intel, AMD, and lavapipe on the CPU" has_driver
need optional vulkan-validationlayers "checks every Vulkan call in the tests" has_layer

packages=("${required[@]}" "${optional[@]}")
[[ ${#packages[@]} -eq 0 ]] && exit 0
"$(dirname "$0")/apt_install.sh" "${packages[@]}" && exit 0
[[ ${#required[@]} -eq 0 ]] || exit 1
echo "going on without: networks run on the CPU, or unchecked" >&2
