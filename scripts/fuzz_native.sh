#!/bin/sh
# Fuzz the bytes of modules in the native library: fuzz_native.sh PYTHON SECONDS. Needs clang with
# libFuzzer (Debian: clang, libclang-rt-dev); ASan and UBSan watch. Corpus and finds: build/fuzz.
set -e
python=$1 seconds=${2:-60}
clang=$(command -v clang++ || command -v clang++-14 || true)
if [ -z "$clang" ]; then
    echo "clang++ with libFuzzer is needed to fuzz the native library: apt install clang libclang-rt-dev" >&2
    exit 1
fi
out=build/fuzz
sources=tvm_vision/vulkan/csrc
mkdir -p $out/module
flags=$("$python" -c '
import native_build
found = native_build.find_toolchain()
print(" ".join(f"-isystem {path}" for path in found.include_dirs))
print(" ".join(f"-L{path} -Wl,-rpath,{path}" for path in found.library_dirs))')
# Reports of leaks need ptrace, which containers lack; memory is freed by destructors alone.
$clang -std=c++17 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
    -I$sources -Itvm_vision $flags -o $out/fuzz_module tests/vulkan/cpp/fuzz_module_format.cc \
    $sources/module_format.cc $sources/spirv_reader.cc $sources/shader_types.cc $sources/cache_file.cc -ltvm_ffi
ASAN_OPTIONS=detect_leaks=0 $out/fuzz_module $out/module tests/fuzz_corpus/module \
    -max_total_time="$seconds" -max_len=65536 -artifact_prefix=$out/module. -print_final_stats=1 \
    -use_value_profile=1 > $out/module.log 2>&1 || { tail -n 20 $out/module.log; exit 1; }
awk '/cov:/ { for (i = 1; i < NF; i++) { if ($i == "cov:") c = $(i+1); if ($i == "ft:") f = $(i+1) } }
     /number_of_executed_units/ { n = $2 }
     END { print "module: " n " executions, " c " edges, " f " features: nothing found" }' $out/module.log
