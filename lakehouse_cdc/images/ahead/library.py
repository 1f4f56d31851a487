"""The library of kernels that `images.build` made: its machine code for this processor, and where its kernels are.

**It is never of other sources.** `kernels.json` names the digest of the sources that it was made of; with any other
digest there is no library, and numba compiles the sources that are there. It names the digest of `kernels.bc`, too, so
that the two files are of one build.

**It is never for another processor.** The library is LLVM's intermediate code, which knows no processor: the same on
x86-64 and on ARM, for every version of Python and of numba. Machine code is made here, for the processor's own name and
features, and kept in a file whose name has both, the version of LLVM, and the digest of the library. LLVM reads what
this or an earlier major version wrote, so an older one has no library. A file that is cut off or altered has another
checksum than it says, and is made again; a file that cannot be written is made in each process.

The files are in NUMBA_CACHE_DIR, else beside this module, as Python's own compiled files are.

Guards: tests/images/ahead/test_library.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from lakehouse_cdc.images.ahead.calls import caller
from lakehouse_cdc.images.digest import DIGEST

CODE, CONTENTS = Path(__file__).with_name("kernels.bc"), Path(__file__).with_name("kernels.json")
PROCESSORS = ("x86_64", "amd64", "aarch64", "arm64")  # little-endian, of 64 bits
SWITCH = "LAKEHOUSE_CDC_KERNELS"  # `numba`: compile all that is called, whatever was built ahead
_CHECKSUM = 32
_lock = Lock()


def kernel_ahead(name: str) -> Callable[..., Any] | None:
    """The kernel of that name, `module.function`, if the library can be used here and has it."""
    contents = usable()
    if contents is None or name not in contents["kernels"]:
        return None
    entry = contents["kernels"][name]
    with _lock:
        address = _engine().get_function_address(entry["symbol"])
    return caller(address, entry["arguments"], entry["results"], entry["single"])


@cache
def usable() -> dict[str, Any] | None:
    """What the library has, if it is of the sources that are here and this machine's LLVM reads it."""
    if os.environ.get(SWITCH) == "numba" or platform.machine().lower() not in PROCESSORS or sys.byteorder != "little":
        return None
    try:
        contents: dict[str, Any] = json.loads(CONTENTS.read_bytes())
    except FileNotFoundError:
        return None
    if contents["digest"] != DIGEST or contents["code"] != hashlib.sha256(CODE.read_bytes()).hexdigest():
        return None
    import llvmlite.binding as llvm

    return contents if llvm.llvm_version_info[0] >= contents["llvm"] else None


@cache
def _engine() -> Any:
    """LLVM's engine, with the library's machine code in it.

    It has a context of its own, since another thread may be in LLVM, too, where numba compiles what is not ours.
    """
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine, context = _machine(llvm), llvm.create_context()
    code = _machine_code(llvm, machine, context)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly("", context), machine)
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    engine.of_context = context  # which must not end before it
    return engine


def _machine(llvm: Any) -> Any:
    """This processor, as numba describes it to LLVM."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=_features(llvm), opt=3,
        reloc="static" if x86 else "default", codemodel="jitdefault", jit=True,
    )  # fmt: skip


def _features(llvm: Any) -> str:
    with suppress(RuntimeError):  # a system that does not say
        return str(llvm.get_host_cpu_features().flatten())
    return ""


def _machine_code(llvm: Any, machine: Any, context: Any) -> bytes:
    """From its file, or made, and then put there."""
    code = CODE.read_bytes()
    place = (llvm.llvm_version_info, machine.triple, llvm.get_host_cpu_name(), _features(llvm))
    key = hashlib.sha256(code + repr(place).encode()).hexdigest()[:32]
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "__pycache__")
    file = folder / f"kernels-{key}.o"
    with suppress(OSError):
        content = file.read_bytes()
        if hashlib.sha256(content[_CHECKSUM:]).digest() == content[:_CHECKSUM]:
            return content[_CHECKSUM:]
    module = llvm.parse_bitcode(code, context)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    made: bytes = machine.emit_object(module)
    with suppress(OSError):
        _put(file, hashlib.sha256(made).digest() + made)
    return made


def _put(file: Path, content: bytes) -> None:
    """Write a file that is whole as soon as it is there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.{os.getpid()}.{os.urandom(4).hex()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        os.replace(beside, file)
    except OSError:
        os.unlink(beside)
        raise
