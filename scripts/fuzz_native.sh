#!/bin/sh
# Fuzz what reads files in C++: fuzz_native.sh PYTHON SECONDS [TARGET...], SECONDS for each; without
# targets all. Needs clang with libFuzzer (Debian: clang, libclang-rt-dev); ASan and UBSan watch.
# Corpus and finds: build/fuzz, or $FUZZ_BUILD. Each target ends with a line of what it reached.
set -e
python=$1 seconds=${2:-60}
[ $# -gt 2 ] && shift 2 || set -- module members cpp_info cpp_params cpp_signature keys text
clang=$(command -v clang++ || command -v clang++-14 || true)
if [ -z "$clang" ]; then
    echo "clang++ with libFuzzer is needed to fuzz what is C++: apt install clang libclang-rt-dev" >&2
    exit 1
fi
out=${FUZZ_BUILD:-build/fuzz}
mkdir -p "$out/objects"
flags=$("$python" -c '
import native_build
found = native_build.find_toolchain()
print(" ".join(f"-isystem {path}" for path in found.include_dirs))
print(" ".join(f"-L{path} -Wl,-rpath,{path}" for path in found.library_dirs))')
folders="-Itvm_vision/vulkan/csrc -Itvm_vision -Icpp/include"
libraries=-ltvm_ffi
# Without it keys are refused, and the targets of signatures have nothing to do.
openssl=
if [ -f /usr/include/openssl/evp.h ]; then
    openssl=-DTVM_VISION_WITH_OPENSSL
    libraries="$libraries -lcrypto"
fi
watched="-std=c++17 -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined"

# Compile $2 into the object $1, where a source or a header is newer.
compile() {
    if [ -z "$(find "$1" 2>/dev/null)" ] || [ -n "$(find cpp tvm_vision -name '*.h' -newer "$1" -print -quit)" ] ||
        [ "$2" -nt "$1" ]; then
        # shellcheck disable=SC2086 # words of options
        $clang $watched $openssl $folders $flags $3 -Wno-unused-command-line-argument -c -o "$1" "$2"
    fi
}

# The objects of a list of sources, in $objects.
compile_all() {
    objects=
    for source in "$@"; do
        object=$out/objects/$(basename "$source" .cc).o
        compile "$object" "$source"
        objects="$objects $object"
    done
}

backend=tvm_vision/vulkan/csrc
for target in "$@"; do
    reader=
    case $target in
    module) harness=tests/vulkan/cpp/fuzz_module_format.cc ;;
    members) reader=ReadMembers ;;
    cpp_info) reader=ReadInfo ;;
    cpp_params) reader=ReadParams ;;
    cpp_signature) reader=ReadSignature ;;
    keys) reader=ReadKeys ;;
    text) reader=ReadText ;;
    *)
        echo "a target of module, members, cpp_info, cpp_params, cpp_signature, keys or text is" \
            "needed, found '$target'" >&2
        exit 1
        ;;
    esac
    if [ -n "$reader" ]; then
        harness=cpp/tests/fuzz_readers.cc
        compile_all cpp/src/container.cc cpp/src/fields.cc cpp/src/file_kinds.cc cpp/src/fleet.cc \
            cpp/src/model_info.cc cpp/src/package.cc cpp/src/processor.cc cpp/src/sha256.cc \
            cpp/src/signature.cc cpp/src/text.cc
    else
        compile_all $backend/module_format.cc $backend/spirv_reader.cc $backend/shader_types.cc \
            $backend/cache_file.cc
    fi
    compile "$out/objects/fuzz_$target.o" $harness "-DREADER=$reader"
    # Reports of leaks need ptrace, which containers lack; memory is freed by destructors alone.
    # shellcheck disable=SC2086
    $clang -fsanitize=fuzzer,address,undefined -o "$out/fuzz_$target" "$out/objects/fuzz_$target.o" \
        $objects $flags $libraries
    mkdir -p "$out/$target"
    ASAN_OPTIONS=detect_leaks=0 "$out/fuzz_$target" "$out/$target" "tests/fuzz_corpus/$target" \
        -max_total_time="$seconds" -max_len=65536 -timeout=60 -artifact_prefix="$out/$target." \
        -print_final_stats=1 -use_value_profile=1 >"$out/$target.log" 2>&1 || {
        echo "$target: FOUND, see $out/$target.log" >&2
        grep -a -m 5 -e ERROR -e 'runtime error' -e SUMMARY "$out/$target.log" >&2 || tail -n 20 "$out/$target.log" >&2
        exit 1
    }
    awk -v name="$target" '
        /cov:/ { for (i = 1; i < NF; i++) { if ($i == "cov:") c = $(i+1); if ($i == "ft:") f = $(i+1) } }
        /number_of_executed_units/ { n = $2 }
        END { print name " (C++): " n " executions, " c " edges, " f " features: nothing found" }' "$out/$target.log"
done
