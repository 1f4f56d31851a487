"""Make the library of kernels that is shipped (see `images.ahead.library`):

    uv run python -m lakehouse_cdc.images.build

numba compiles each kernel without optimisation, for the types that its annotations say, together with one more
function: it takes the arguments from an array of words (see `images.ahead.calls`) and calls the kernel. LLVM links all
of these, which share most of their parts, and optimises the whole once, for no processor in particular. What is left
depends on nothing outside, which is checked: no function but memcpy and its like is called, no address of this process
is in it, and nothing is said of a processor. LLVM's description of memory that it has from here is replaced where the
library is used; numbers, addresses and structures of these have the same places on all processors that are supported.

Made again of the same sources by the same versions, it is the same (`test_it_is_what_its_sources_give`).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, Final, get_args, get_origin, get_type_hints

from lakehouse_cdc.images.ahead.calls import NUMBER
from lakehouse_cdc.images.ahead.library import CODE, CONTENTS, SWITCH
from lakehouse_cdc.images.compiled import Kernel, Part
from lakehouse_cdc.images.digest import DIGEST

_SETTINGS: Final = {"NUMBA_OPT": "0", "NUMBA_LOOP_VECTORIZE": "0", "NUMBA_SLP_VECTORIZE": "0", SWITCH: "numba"}
# nothing here allocates (which would call something outside), so what numba counts references to is always NULL
_NO_COUNTS = "\n".join(
    f"define linkonce_odr void @NRT_{name}(ptr %of) alwaysinline {{\n  ret void\n}}" for name in ("incref", "decref")
)
_SCOPE = re.compile(r'!"[^"]*: %\w+"')  # the names of what LLVM knows to be apart: half of the bytes
_OUTSIDE = re.compile(r"llvm\.(?!x86|aarch64)|mem(cpy|set|move)$")


def main() -> None:
    """Write the library beside `images.ahead.library`, or to the folder that is named."""
    if any(os.environ.get(name) != value for name, value in _SETTINGS.items()):  # numba reads them as it is imported
        command = [sys.executable, "-m", __spec__.name, *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **_SETTINGS})
    folder = Path(sys.argv[1]) if sys.argv[1:] else CODE.parent
    code, contents = built()
    (folder / CODE.name).write_bytes(code)
    (folder / CONTENTS.name).write_text(json.dumps(contents, indent=1) + "\n")
    print(f"{len(contents['kernels'])} kernels, {len(code):,} bytes")


def built() -> tuple[bytes, dict[str, Any]]:
    """The library and what is in it; under the settings of this module alone."""
    import llvmlite.binding as llvm
    import numba

    llvm.initialize_native_target()
    entries = {name: _entry(kernel, i) for i, (name, kernel) in enumerate(kernels().items())}
    code = _optimised(llvm, [entry.pop("code") for entry in entries.values()])
    contents = {
        "digest": DIGEST,
        "code": hashlib.sha256(code).hexdigest(),
        "llvm": llvm.llvm_version_info[0],
        "built_by": {"numba": numba.__version__, "python": ".".join(platform.python_version_tuple()[:2])},
        "kernels": entries,
    }
    return code, contents


def kernels() -> dict[str, Kernel]:
    """All kernels of this package that Python calls, by module and name."""
    import lakehouse_cdc.images as package

    modules = [import_module(module.name) for module in walk_packages(package.__path__, f"{package.__name__}.")]
    named = {
        f"{module.__name__}.{name}": value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, Kernel) and value.py_func.__module__ == module.__name__
    }
    return dict(sorted(named.items()))


def _entry(kernel: Kernel, number: int) -> dict[str, Any]:
    """What is known of a kernel, with LLVM's code of its function of words."""
    from numba.core import types
    from numba.extending import intrinsic

    hints = get_type_hints(kernel.py_func, include_extras=True)
    returned = hints.pop("return")
    kinds = [_type(hint) for hint in hints.values()]
    run = intrinsic(_calling(kernel, kinds))

    def entry(words: Any) -> None:
        run(words)

    words = types.CPointer(types.int64)  # type: ignore[no-untyped-call]
    dispatcher = Part(entry).dispatcher
    dispatcher.compile((words,))
    (text,) = dispatcher.inspect_llvm().values()
    (made,) = dispatcher.overloads.values()
    symbol = f"kernel_{number}"
    return {
        "symbol": symbol,
        "arguments": [leaf for kind in kinds for leaf in _leaves(kind)],
        "results": [hint.__name__ for hint in get_args(returned) or (returned,)],
        "single": get_origin(returned) is not tuple,
        "code": (symbol, made.fndesc.llvm_func_name, text),
    }


def _type(hint: Any) -> Any:
    """numba's type for an annotation: a number, a truth, an array (`Annotated` has its dimensions), a named tuple."""
    import numpy as np
    from numba.core import types
    from numba.np.numpy_support import from_dtype

    if hint in (int, bool):
        return types.int64 if hint is int else types.boolean
    if hasattr(hint, "_fields"):
        fields = get_type_hints(hint, include_extras=True)
        return types.NamedTuple([_type(fields[name]) for name in hint._fields], hint)  # type: ignore[no-untyped-call]
    dimensions = hint.__metadata__[0] if hasattr(hint, "__metadata__") else 1
    plain = hint.__origin__ if hasattr(hint, "__metadata__") else hint
    (element,) = get_args(get_args(plain)[1])
    return types.Array(from_dtype(np.dtype(element)), dimensions, "C")


def _leaves(kind: Any) -> Iterator[str]:
    from numba.core import types

    if isinstance(kind, types.NamedTuple):
        for field in kind:
            yield from _leaves(field)
    else:
        yield f"{kind.dtype} {kind.ndim}" if isinstance(kind, types.Array) else NUMBER


def _calling(kernel: Kernel, kinds: list[Any]) -> Any:
    """An intrinsic's definition: take arguments of these types from words, call the kernel, put its results there."""
    from numba.core import types

    def make(typing: Any, words: Any) -> Any:
        function = types.Dispatcher(kernel.dispatcher)
        signature = typing.resolve_function_type(function, tuple(kinds), {})

        def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
            places = _Words(context, builder, values[0])
            arguments = [places.take(kind) for kind in kinds]
            implementation = context.get_function(function, signature)
            context.add_linking_libs(implementation.libs)
            places.put(signature.return_type, implementation(builder, arguments))
            return context.get_dummy_value()

        return types.none(words), generate

    return make


class _Words:
    """The words of a call, one after another, as code that reads and writes them."""

    def __init__(self, context: Any, builder: Any, words: Any) -> None:
        self._context, self._builder, self._words, self._next = context, builder, words, 0

    def take(self, kind: Any) -> Any:
        """A value of that type, from the words that come next."""
        from numba.core import types
        from numba.np.arrayobj import populate_array

        context, builder = self._context, self._builder
        if isinstance(kind, types.NamedTuple):
            return context.make_tuple(builder, kind, [self.take(field) for field in kind])
        if not isinstance(kind, types.Array):
            return context.cast(builder, builder.load(self._place()), types.int64, kind)
        array = context.make_array(kind)(context, builder)
        size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        data = builder.inttoptr(builder.load(self._place()), context.get_data_type(kind.dtype).as_pointer())
        shape = [builder.load(self._place()) for _ in range(kind.ndim)]
        strides = [context.get_constant(types.intp, size)]
        for length in reversed(shape[1:]):
            strides.insert(0, builder.mul(length, strides[0]))
        itemsize = context.get_constant(types.intp, size)
        populate: Any = populate_array
        populate(array, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
        return array._getvalue()

    def put(self, kind: Any, value: Any) -> None:
        """A result, or a tuple of results, into the first words."""
        from numba.core import types

        self._next = 0
        several = isinstance(kind, types.BaseTuple)
        for i, one in enumerate(kind if several else [] if kind is types.none else [kind]):
            result = self._builder.extract_value(value, i) if several else value
            word = self._context.cast(self._builder, result, one, types.int64)
            self._builder.store(word, self._place())

    def _place(self) -> Any:
        from numba.core import types

        place = self._builder.gep(self._words, [self._context.get_constant(types.intp, self._next)])
        self._next += 1
        return place


def _optimised(llvm: Any, entries: list[tuple[str, str, str]]) -> bytes:
    """All of them as one module, optimised as a whole, without what nothing calls and without long names."""
    whole = llvm.parse_assembly(_NO_COUNTS)
    for symbol, name, text in entries:
        module = llvm.parse_assembly(text)
        module.get_function(name).name = symbol
        for function in module.functions:
            if not function.is_declaration:
                function.linkage = "external" if function.name == symbol else "linkonce_odr"
        whole.link_in(module)
    for value in (*whole.functions, *whole.global_variables):
        if not value.is_declaration and not value.name.startswith("kernel_"):
            value.linkage = "internal"
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(cpu="", features="", opt=3)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(whole, builder)
    for i, function in enumerate(f for f in whole.functions if not f.is_declaration):
        if not function.name.startswith("kernel_"):
            function.name = f"part_{i}"
    for i, variable in enumerate(whole.global_variables):
        variable.name = f"data_{i}"
    _require_closed(whole)
    short = llvm.parse_assembly(_SCOPE.sub('!""', str(whole)))
    short.name = "kernels"
    short.verify()
    return bytes(short.as_bitcode())


def _require_closed(module: Any) -> None:
    outside = {value.name for value in (*module.functions, *module.global_variables) if value.is_declaration}
    assert all(_OUTSIDE.match(name) for name in outside), outside
    text = str(module)
    assert "target-cpu" not in text
    assert "inttoptr (" not in text, "an address of this process"


if __name__ == "__main__":
    main()
