"""Machine code of the library: of this processor alone, whole or made again, and numba is not even imported."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from lakehouse_cdc.images.ahead import library
from lakehouse_cdc.images.ahead.library import CODE, CONTENTS, SWITCH, usable
from lakehouse_cdc.images.binlog.stretches import pass_events
from lakehouse_cdc.images.typed.rows import gather

WHY = f"no library of kernels is used here: see {SWITCH}, and the version of LLVM"
pytestmark = pytest.mark.skipif(usable() is None, reason=WHY)
WARM = "import sys; from lakehouse_cdc.images.warm import warm_up; warm_up(); assert 'numba' not in sys.modules"


def machine_code(folder: Path, monkeypatch: Any) -> bytes:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return library._machine_code(llvm, library._machine(llvm), llvm.create_context())


def test_machine_code_is_made_once_and_again_where_its_file_is_not_whole(tmp_path: Path, monkeypatch: Any) -> None:
    made = machine_code(tmp_path, monkeypatch)
    (file,) = tmp_path.iterdir()
    whole, stamp = file.read_bytes(), file.stat().st_mtime_ns
    assert machine_code(tmp_path, monkeypatch) == made
    assert file.stat().st_mtime_ns == stamp
    for broken in (b"", whole[:100], whole[:-1], whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]):
        file.write_bytes(broken)
        assert machine_code(tmp_path, monkeypatch) == made
        assert file.read_bytes() == whole
    assert [*tmp_path.iterdir()] == [file]


def test_code_of_another_processor_is_another_file(tmp_path: Path, monkeypatch: Any) -> None:
    machine_code(tmp_path, monkeypatch)
    monkeypatch.setattr(library, "_features", lambda _: "")
    machine_code(tmp_path, monkeypatch)
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "")
    machine_code(tmp_path, monkeypatch)
    monkeypatch.setattr(llvm, "llvm_version_info", (99, 0, 0))
    machine_code(tmp_path, monkeypatch)
    assert len([*tmp_path.iterdir()]) == 4


def test_where_no_file_can_be_written_it_is_made_in_each_process(tmp_path: Path, monkeypatch: Any) -> None:
    no_folder = tmp_path / "file"
    no_folder.touch()
    assert machine_code(no_folder, monkeypatch) == machine_code(tmp_path / "folder", monkeypatch)


def test_the_library_knows_no_processor() -> None:
    """LLVM makes code of both kinds from the same file."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for triple in ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "arm64-apple-macosx"):
        machine = llvm.Target.from_triple(triple).create_target_machine()
        module = llvm.parse_bitcode(CODE.read_bytes(), llvm.create_context())
        module.triple, module.data_layout = triple, str(machine.target_data)
        module.verify()
        assert machine.emit_object(module)


@pytest.mark.process
def test_a_process_needs_no_numba_and_no_cache(tmp_path: Path) -> None:
    for _ in range(2):
        subprocess.run([sys.executable, "-c", WARM], check=True, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)})
        assert len([*tmp_path.iterdir()]) == 1


def test_numba_makes_the_same_of_a_kernel() -> None:
    ours: Any = gather
    passing: Any = pass_events
    data = np.frombuffer(bytes(range(200)), np.uint8)
    arguments = (data, np.array([3, 50, 100]), np.array([5, 0, 99]))
    assert ours.run is not ours.by_numba
    assert passing.run is not passing.by_numba
    by_library, by_numba = (np.zeros(104, np.uint8) for _ in range(2))
    ours(*arguments, by_library)
    ours.by_numba(*arguments, by_numba)
    assert by_library.tobytes() == by_numba.tobytes() == bytes([*range(3, 8), *range(100, 199)])
    event = bytes(9) + (30).to_bytes(4, "little") + bytes(17)
    for end in (-1, 30, 31, 90):
        events = np.frombuffer(event * 3, np.uint8)
        assert passing(events, 0, 4, end) == passing.by_numba(events, 0, 4, end)


@pytest.mark.long
@pytest.mark.process
def test_the_tests_of_kernels_pass_with_numba(tmp_path: Path) -> None:
    environment = {**os.environ, SWITCH: "numba", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = f"{sys.executable} -m pytest -n 0 -q -m".split()
    command += ["unit and not long", str(Path(__file__).parents[1])]
    subprocess.run(command, check=True, env=environment)


@pytest.mark.long
@pytest.mark.process
def test_it_is_what_its_sources_give(tmp_path: Path) -> None:
    import numba

    built_by = json.loads(CONTENTS.read_bytes())["built_by"]
    if built_by != {"numba": numba.__version__, "python": ".".join(platform.python_version_tuple()[:2])}:
        pytest.skip(f"the library was built by {built_by}")
    before = CODE.read_bytes(), CONTENTS.read_bytes()
    subprocess.run([sys.executable, "-m", "lakehouse_cdc.images.build", str(tmp_path)], check=True)
    assert ((tmp_path / CODE.name).read_bytes(), (tmp_path / CONTENTS.name).read_bytes()) == before
