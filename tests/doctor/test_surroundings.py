"""Each check of doctor on machines in disorder, made of scratch folders and variables."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tvm_vision.doctor import examine as examination
from tvm_vision.doctor import installation
from tvm_vision.doctor.driver_files import check_driver_files, driver_files
from tvm_vision.doctor.finding import Finding, Machine, worst
from tvm_vision.doctor.gpus import check_groups, check_nodes, expected
from tvm_vision.doctor.memory import check_memory
from tvm_vision.doctor.power import (
    check_gpu_clock,
    check_power,
    check_processor_clock,
    check_temperature,
)

AMD = {
    "sys/bus/pci/devices/0000:04:00.0/vendor": "0x1002",
    "sys/bus/pci/devices/0000:04:00.0/class": "0x030000",
}
NODE = {"dev/dri/renderD128": "", "dev/dri/card0": ""}
CORE = "sys/devices/system/cpu/cpu0/cpufreq"
CARD = "sys/class/drm/card0"
ZONE = "sys/class/thermal/thermal_zone0"


def clock(driver: str, governor: str, most: int = 4_000_000, **more: str) -> dict[str, str]:
    files = {"scaling_driver": driver, "scaling_governor": governor, **more}
    files.update(scaling_max_freq=str(most), cpuinfo_max_freq="4000000")
    return {f"{CORE}/{name}": text for name, text in files.items()}


def xe(most: int, throttled: int = 0) -> dict[str, str]:
    folder = f"{CARD}/device/tile0/gt0/freq0"
    numbers = {"max_freq": most, "rp0_freq": 1300, "act_freq": 300, "throttle/status": throttled}
    return {f"{folder}/{name}": str(value) for name, value in numbers.items()}


def memory(available: int, **group: int) -> dict[str, str]:
    files = {f"sys/fs/cgroup/memory.{name}": str(value) for name, value in group.items()}
    return {"proc/meminfo": f"MemTotal: 8000000 kB\nMemAvailable: {available} kB\n", **files}


def battery(status: str, scope: str = "System") -> dict[str, str]:
    folder = "sys/class/power_supply/BAT0"
    files = {"type": "Battery", "status": status, "capacity": "61", "scope": scope}
    return {f"{folder}/{name}": text for name, text in files.items()}


def on(root: Path, files: dict[str, str], **given: Any) -> Machine:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return Machine(root=root, **{"environment": {}, **given})


@pytest.mark.parametrize(
    ("check", "files", "state", "words"),
    [
        (check_power, battery("Discharging"), "warn", "runs on its battery (61 %)"),
        (check_power, battery("Charging"), "ok", "on mains"),
        (check_power, battery("Discharging", "Device"), "ok", "on mains"),
        (check_power, {}, "ok", "no battery"),
        (check_power, {"sys/firmware/acpi/platform_profile": "low-power"}, "warn", "low-power"),
        (check_processor_clock, clock("acpi-cpufreq", "powersave"), "warn", "lowest clock always"),
        (check_processor_clock, clock("intel_pstate", "powersave"), "ok", "up to 4.0 GHz"),
        (
            check_processor_clock,
            clock("amd-pstate-epp", "powersave", energy_performance_preference="power"),
            "warn",
            "to save power",
        ),
        (
            check_processor_clock,
            clock("acpi-cpufreq", "schedutil", 2_000_000),
            "warn",
            "up to 2.0 GHz of 4.0 GHz",
        ),
        (check_processor_clock, {}, "ok", "not told"),
        (
            check_gpu_clock,
            {
                f"{CARD}/device/power_dpm_force_performance_level": "low",
                f"{CARD}/device/pp_dpm_sclk": "0: 200Mhz *\n1: 400Mhz\n2: 1900Mhz",
                f"{CARD}-HDMI-A-1/status": "connected",
            },
            "warn",
            "level low, 200 of 1900 MHz now",
        ),
        (
            check_gpu_clock,
            {f"{CARD}/device/power_dpm_force_performance_level": "auto"},
            "ok",
            "amdgpu, level auto",
        ),
        (
            check_gpu_clock,
            {f"{CARD}/gt_max_freq_mhz": "600", f"{CARD}/gt_RP0_freq_mhz": "1300"},
            "warn",
            "up to 600 of 1300 MHz",
        ),
        (check_gpu_clock, xe(1300), "ok", "up to 1300 of 1300 MHz, 300 now"),
        (check_gpu_clock, xe(1300, throttled=1), "warn", "held down by power or heat"),
        (check_gpu_clock, {}, "ok", "not told"),
        (check_temperature, {f"{ZONE}/temp": "97000"}, "warn", "97 °C"),
        (
            check_temperature,
            {
                f"{ZONE}/temp": "81000",
                f"{ZONE}/trip_point_0_type": "passive",
                f"{ZONE}/trip_point_0_temp": "80000",
            },
            "warn",
            "held down from 80 °C on",
        ),
        (check_temperature, {f"{ZONE}/temp": "45000", f"{ZONE}/type": "x86"}, "ok", "45 °C"),
        (check_memory, memory(4_000_000), "ok", "3.8 of 7.6 GiB"),
        (check_memory, memory(400_000), "warn", "0.4 of 7.6 GiB"),
        (check_memory, memory(4_000_000, max=2 << 30, current=3 << 29), "warn", "0.5 GiB of this"),
        (check_memory, {}, "warn", "tells nothing"),
        (check_nodes, {}, "warn", "no GPU is known to the kernel"),
        (check_nodes, AMD, "fail", "AMD GPU at 0000:04:00.0, and no device node"),
        (check_nodes, {**AMD, **NODE}, "ok", "/dev/dri/renderD128 can be opened"),
        (check_groups, NODE, "ok", "is in"),
    ],
)
def test_what_a_check_finds(
    check: Any, files: dict[str, str], state: str, words: str, tmp_path: Path
) -> None:
    (found,) = check(on(tmp_path, files))
    assert (found.state, words in found.words) == (state, True), found


def nobody(path: Path, mode: int) -> bool:
    return False


def test_no_permission_on_the_node(tmp_path: Path) -> None:
    (found,) = check_nodes(on(tmp_path, {**AMD, **NODE}, may=nobody))
    assert (found.state, found.words) == ("fail", "this user may not open /dev/dri/renderD128")
    assert "sudo usermod -aG render,video $USER" in found.remedy or "--group-add" in found.remedy


def test_one_node_of_two_is_enough_to_go_on(tmp_path: Path) -> None:
    machine = on(
        tmp_path, {**NODE, "dev/dri/renderD129": ""}, may=lambda path, _: path.name[-1] == "8"
    )
    (found,) = check_nodes(machine)
    assert found.state == "warn"
    assert "may not open /dev/dri/renderD129 (/dev/dri/renderD128 can" in found.words


def test_a_camera_that_may_not_be_opened(tmp_path: Path) -> None:
    (found,) = check_groups(on(tmp_path, {"dev/video0": ""}, may=nobody))
    assert (found.state, found.words) == ("warn", "this user may not open /dev/video0")


def test_a_gpu_in_a_container_without_its_node(tmp_path: Path) -> None:
    (found,) = check_nodes(on(tmp_path, {**AMD, ".dockerenv": ""}))
    assert (found.state, found.remedy) == ("fail", "start the container with --device /dev/dri")


def test_a_gpu_on_no_bus_is_expected_and_a_virtual_one_is_not(tmp_path: Path) -> None:
    for number, module in ((128, "v3d"), (129, "vgem")):
        device = tmp_path / f"sys/class/drm/renderD{number}/device"
        device.mkdir(parents=True)
        (device / "driver").symlink_to(f"../../bus/drivers/{module}")
    assert [gpu.module for gpu in expected(Machine(root=tmp_path))] == ["v3d"]


def icd(library: str) -> str:
    return json.dumps({"ICD": {"library_path": library, "api_version": "1.3.0"}})


@pytest.mark.parametrize(
    ("files", "variables", "states", "words"),
    [
        ({}, {}, ["fail"], "no Vulkan driver is installed"),
        ({"a.json": icd("liba.so")}, {}, ["ok"], "a"),
        ({"a.json": icd("liba.so"), "b.json": "{"}, {}, ["warn", "ok"], "is no description of a"),
        ({"a.json": "[]"}, {}, ["fail"], "is no description of a driver"),
        ({"a.json": icd("libbroken.so")}, {}, ["fail"], "which cannot be loaded"),
        ({"a.json": icd("liba.so")}, {"VK_DRIVER_FILES": "/none.json"}, ["fail"], "is not there"),
        ({"a.json": icd("liba.so")}, {"VK_ICD_FILENAMES": "/none.json"}, ["fail"], "/none.json"),
    ],
)
def test_driver_files(
    files: dict[str, str],
    variables: dict[str, str],
    states: list[str],
    words: str,
    tmp_path: Path,
) -> None:
    folder = "usr/share/vulkan/icd.d"
    machine = on(
        tmp_path, {f"{folder}/{name}": text for name, text in files.items()}, environment=variables
    )
    found = list(check_driver_files(machine, {"libbroken.so": "cannot be loaded"}))
    assert [finding.state for finding in found] == states, found
    assert words in found[0].words


def test_where_drivers_are_looked_for(tmp_path: Path) -> None:
    data, home = tmp_path / "data", tmp_path / "home"
    files = {"data/vulkan/icd.d/one.json": icd("/x.so"), "named.json": icd("../y.so")}
    files["home/.config/vulkan/icd.d/two.json"] = icd("z.so")
    machine = on(
        tmp_path,
        files,
        environment={
            "HOME": str(home),
            "XDG_DATA_DIRS": str(data),
            "VK_ADD_DRIVER_FILES": str(tmp_path / "named.json"),
        },
    )
    variable, found = driver_files(machine)
    assert (variable, [file.name for file in found]) == ("", ["named", "two", "one"])
    assert found[0].library == str(tmp_path / "../y.so")


@pytest.fixture
def wrong_pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "apache_tvm_ffi-0.1.15.post2.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: apache-tvm-ffi\nVersion: 0.1.15.post2\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_wrong_pin(wrong_pin: Path) -> None:
    (found,) = installation.check_pins(Machine())
    assert found.state == "fail"
    assert found.words == "apache-tvm-ffi==0.1.14.post1 is needed, found 0.1.15.post2"
    assert found.remedy == f"{sys.executable} -m pip install 'apache-tvm-ffi==0.1.14.post1'"


def test_the_pins_of_this_environment_are_right() -> None:
    (found,) = installation.check_pins(Machine())
    assert found.state == "ok", found


def test_no_package_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "PACKAGE", "tvm_vision_of_nobody")
    assert [f.state for f in installation.check_pins(Machine())] == ["warn"]
    assert [f.state for f in installation.check_python(Machine())] == ["ok"]


def test_a_python_that_is_too_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.python_version", lambda: "3.14.0")
    (found,) = installation.check_python(Machine())
    assert (found.state, found.words[:6]) == ("fail", "3.14.0")


def test_no_native_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(installation, "NATIVE", tmp_path / "none.so")
    (found,) = installation.check_native(Machine())
    assert (found.state, "is not there" in found.words) == ("fail", True)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"CXX": "/nonexistent/g++"}, "/nonexistent/g++ is not there"),
        ({"CXX": "false", "PATH": "/bin:/usr/bin"}, "false cannot be run (CalledProcessError)"),
    ],
)
def test_a_compiler_of_no_use(variables: dict[str, str], words: str) -> None:
    (found,) = installation.check_compiler(Machine(environment=variables))
    assert (found.state, words in found.words) == ("warn", True), found


def test_no_compiler_is_needed() -> None:
    (found,) = installation.check_compiler(Machine(environment={"PATH": "/nonexistent"}))
    assert (found.state, "compiled without one" in found.words) == ("ok", True), found


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    """Not by its mode, which does not count for root."""
    (tmp_path / "file").write_text("")
    variables = {"TVM_VISION_CACHE_DIR": str(tmp_path / "file" / "cache")}
    (found,) = installation.check_caches(Machine(environment=variables))
    assert (found.state, "cannot be written (Not a directory)" in found.words) == ("warn", True)


def test_a_cache_with_files(tmp_path: Path) -> None:
    folder = tmp_path / "tvm_vision"
    folder.mkdir()
    (folder / "x").write_bytes(bytes(3 << 20))
    (found,) = installation.check_caches(Machine(environment={"XDG_CACHE_HOME": str(tmp_path)}))
    assert (found.state, "1 files, 3.0 MiB" in found.words) == ("ok", True), found


def test_the_cache_is_the_library_s(monkeypatch: pytest.MonkeyPatch) -> None:
    from tvm_vision.vulkan import device_options

    for variables in (
        {"TVM_VISION_CACHE_DIR": "/a"},
        {"TVM_VISION_CACHE_DIR": ""},
        {"XDG_CACHE_HOME": "/b"},
        {"HOME": "/c"},
    ):
        for name in ("TVM_VISION_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        ours = installation.cache_folder(Machine())
        assert str(ours or "") == device_options()["TVM_VISION_CACHE_DIR"], variables


def test_ros_that_is_sourced_and_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    (found,) = installation.check_ros(Machine(environment={"ROS_DISTRO": "jazzy"}))
    assert (found.state, "ros-jazzy-vision-msgs" in found.remedy) == ("warn", True)
    assert [f.state for f in installation.check_ros(Machine(environment={}))] == ["ok"]


def test_a_check_that_fails_says_so_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(machine: Machine) -> Iterator[Finding]:
        yield Finding("one", "ok", "seen")
        raise RuntimeError("a file of the kernel's\nthat is strange")

    def other(machine: Machine) -> Iterator[Finding]:
        yield Finding("two", "ok", "seen")

    monkeypatch.setattr(examination, "CHECKS", (("one", broken), ("two", other)))
    monkeypatch.setattr(examination, "_drivers", broken)
    monkeypatch.setattr(examination, "_self_test", lambda machine, patience: other(machine))
    found = list(examination.examine(Machine()))
    states = ["ok", "fail", "ok", "fail", "ok"]
    assert [f.state for f in found][:3] == states[:3]
    assert found[1].words == "the check itself failed: RuntimeError: that is strange"
    assert worst(found) == "fail"


def test_checks_of_a_machine_without_anything_are_all_findings(tmp_path: Path) -> None:
    """An empty root, and files of the wrong kind where the kernel has numbers."""
    odd = {
        f"{CORE}/scaling_governor": "\x00\xff",
        f"{CARD}/device/pp_dpm_sclk": "no clock",
        f"{CARD}/device/power_dpm_force_performance_level": "?",
        f"{ZONE}/temp": "warm",
        "proc/meminfo": "MemAvailable: much",
        "sys/class/power_supply/BAT0/status/is_a_folder": "",
    }
    for files in ({}, odd):
        machine = on(tmp_path, files)
        for name, check in examination.CHECKS:
            if check not in (installation.check_caches,):
                for found in examination._apart(name, check, machine):
                    assert "the check itself failed" not in found.words, found


@pytest.mark.parametrize(
    ("message", "words", "remedy"),
    [
        ("no driver; install one, and look; again", "no driver", "install one, and look; again"),
        ("linking needs g++: apt install g++", "linking needs g++", "apt install g++"),
        ("all is\nlost", "all is lost", "see docs/guides/devices.md"),
    ],
)
def test_a_message_of_ours_has_its_remedy_behind(message: str, words: str, remedy: str) -> None:
    found = Finding.of_message("x", "fail", message)
    assert (found.words, found.remedy) == (words, remedy)


@pytest.mark.parametrize(("state", "remedy"), [("bad", "x"), ("ok", "x"), ("warn", "")])
def test_a_finding_is_checked(state: str, remedy: str) -> None:
    with pytest.raises(ValueError, match="^expected a "):
        Finding("x", state, "words", remedy)


def test_root_is_the_machine_s_own_by_default() -> None:
    assert Machine().path("/proc/meminfo") == Path("/proc/meminfo")
    assert Machine().environment == dict(os.environ)
