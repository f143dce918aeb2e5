from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from medn.core.environment import (
    Manifest,
    SystemFiles,
    allowed_cores,
    cache_bytes,
    differences,
    environment_id,
    environment_manifest,
    last_level_cache_bytes,
    usable_cores,
)

INTEL = "processor\t: 0\nmodel name\t: Fast CPU 9000\nflags\t\t: fpu avx avx2 fma hypervisor\n\nprocessor\t: 1\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd bf16\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


@pytest.fixture
def files(tmp_path: Path) -> SystemFiles:
    """A machine of two cores with three levels of cache, in no container."""
    files = SystemFiles(proc=tmp_path / "proc", sys=tmp_path / "sys")
    write(files.proc / "cpuinfo", INTEL)
    caches = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M"), ("3", "Unified", "36864K")]
    for index, parts in enumerate(caches):
        for name, text in zip(("level", "type", "size"), parts, strict=True):
            write(files.first_core / f"cache/index{index}" / name, text)
    write(files.first_core / "cpufreq/scaling_governor", "powersave")
    write(files.first_core / "cpufreq/scaling_max_freq", "4800000")
    return files


def manifest(files: SystemFiles, **libraries: str) -> Manifest:
    return environment_manifest(libraries or {"torch": "2.13.0"}, files)


def test_this_machine_can_be_described_as_json() -> None:
    assert json.loads(json.dumps(environment_manifest({"torch": "2.13.0"})))["libraries"] == {"torch": "2.13.0"}


def test_a_machine_that_tells_nothing_gives_none(tmp_path: Path) -> None:
    nothing = manifest(SystemFiles(proc=tmp_path / "proc", sys=tmp_path / "sys"))
    assert nothing["cpu"]["governor"] is None
    assert nothing["cpu"]["hypervisor"] is None
    assert nothing["cpu"]["cache_bytes"] == {}
    assert nothing["container"] == {"cpu_quota": None, "limit_bytes": None}


def test_the_cpu_is_read(files: SystemFiles) -> None:
    cpu = manifest(files)["cpu"]
    assert (cpu["model"], cpu["vector_extensions"], cpu["hypervisor"]) == ("Fast CPU 9000", "avx avx2 fma", True)
    assert (cpu["governor"], cpu["highest_hz"], cpu["lowest_hz"]) == ("powersave", 4_800_000_000, None)


def test_an_arm_core_without_a_name_is_named_by_its_part(files: SystemFiles) -> None:
    write(files.proc / "cpuinfo", ARM)
    cpu = manifest(files)["cpu"]
    assert cpu["model"] == "ARM implementer 0x41 part 0xd0c"
    assert cpu["vector_extensions"] == "asimd bf16"


def test_cache_sizes_are_bytes_per_level(files: SystemFiles) -> None:
    assert cache_bytes(files) == {"L1d": 48 * 1024, "L1i": 32 * 1024, "L2": 2 * 1024**2, "L3": 36 * 1024**2}


def test_the_last_level_cache_is_the_largest(files: SystemFiles) -> None:
    assert last_level_cache_bytes(files) == 36 * 1024**2


def test_no_known_cache_gives_no_last_level(tmp_path: Path) -> None:
    assert last_level_cache_bytes(SystemFiles(sys=tmp_path)) is None


def test_an_unreadable_cache_size_is_left_out(files: SystemFiles) -> None:
    write(files.first_core / "cache/index3/size", "unknown")
    assert "L3" not in cache_bytes(files)


def test_limits_of_a_version_2_container_are_the_tightest_up_to_the_root(files: SystemFiles) -> None:
    write(files.proc / "self/cgroup", "0::/pod/box")
    root = files.sys / "fs/cgroup"
    write(root / "pod/box/cpu.max", "max 100000")
    write(root / "pod/cpu.max", "150000 100000")
    write(root / "pod/box/memory.max", "1073741824")
    write(root / "pod/memory.max", "max")
    assert manifest(files)["container"] == {"cpu_quota": 1.5, "limit_bytes": 2**30}


def test_limits_of_a_version_1_container_are_read(files: SystemFiles) -> None:
    write(files.proc / "self/cgroup", "5:memory:/box\n3:cpu,cpuacct:/box\n2:pids:/box")
    root = files.sys / "fs/cgroup"
    write(root / "cpu,cpuacct/box/cpu.cfs_quota_us", "50000")
    write(root / "cpu,cpuacct/box/cpu.cfs_period_us", "100000")
    write(root / "memory/box/memory.limit_in_bytes", "2147483648")
    assert manifest(files)["container"] == {"cpu_quota": 0.5, "limit_bytes": 2**31}


def test_a_version_1_container_without_limits_has_none(files: SystemFiles) -> None:
    write(files.proc / "self/cgroup", "5:memory:/\n3:cpu:/")
    root = files.sys / "fs/cgroup"
    write(root / "cpu/cpu.cfs_quota_us", "-1")
    write(root / "cpu/cpu.cfs_period_us", "100000")
    write(root / "memory/memory.limit_in_bytes", "9223372036854771712")
    assert manifest(files)["container"] == {"cpu_quota": None, "limit_bytes": None}


def test_a_group_that_is_not_visible_falls_back_to_the_root(files: SystemFiles) -> None:
    write(files.proc / "self/cgroup", "0::/outside/of/this/namespace")
    write(files.sys / "fs/cgroup/cpu.max", "200000 100000")
    assert manifest(files)["container"]["cpu_quota"] == 2.0


def test_the_id_is_the_same_for_the_same_machine(files: SystemFiles) -> None:
    assert environment_id(manifest(files)) == environment_id(manifest(files))


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [("os", "release", "7.0"), ("cpu", "hypervisor", False), ("cpu", "logical_cores", 128), ("cpu", "lowest_hz", 1)],
)
def test_the_id_does_not_depend_on(group: str, name: str, value: object, files: SystemFiles) -> None:
    here, other = manifest(files), manifest(files)
    other[group][name] = value
    assert environment_id(here) == environment_id(other)
    assert differences(here, other) == []


@pytest.mark.parametrize(
    ("group", "name", "value", "sentence"),
    [
        ("cpu", "model", "Slow CPU", "cpu model: Fast CPU 9000 here, Slow CPU in the run"),
        ("cpu", "governor", "performance", "governor: powersave here, performance in the run"),
        ("cpu", "governor", None, "governor: powersave here, none in the run"),
        ("cpu", "cache_bytes", {}, "L1d cache bytes: 49152 here, none in the run"),
        ("container", "cpu_quota", 0.5, "container's cpu quota: none here, 0.5 in the run"),
        ("libraries", "torch", "2.12.0", "torch: 2.13.0 here, 2.12.0 in the run"),
    ],
)
def test_a_difference_changes_the_id_and_is_said(
    group: str, name: str, value: object, sentence: str, files: SystemFiles
) -> None:
    here, run = manifest(files), manifest(files)
    run[group][name] = value
    assert environment_id(here) != environment_id(run)
    assert sentence in differences(here, run)


def test_a_library_missing_here_is_a_difference(files: SystemFiles) -> None:
    here, run = manifest(files, torch="1"), manifest(files, torch="1", openvino="2")
    assert differences(here, run) == ["openvino: none here, 2 in the run"]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system pins no processes")
def test_usable_cores_follow_the_affinity(files: SystemFiles) -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert usable_cores(files) == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert usable_cores(files) == len(allowed)


@pytest.mark.parametrize(("quota", "cores"), [("50000", 1), ("100000", 1), ("99900000", allowed_cores())])
def test_usable_cores_follow_the_quota_of_a_container(files: SystemFiles, quota: str, cores: int) -> None:
    write(files.proc / "self/cgroup", "0::/")
    write(files.sys / "fs/cgroup/cpu.max", f"{quota} 100000")
    assert usable_cores(files) == cores
