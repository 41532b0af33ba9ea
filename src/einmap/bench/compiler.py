"""A C compiler, and a library of fast code that is called from Python."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.errors import SpecError
from einmap.visible import short, visible

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-march=native", "-Wno-psabi", "-DNO_MAIN", "-shared", "-fPIC")
MOST_SECONDS = 300


def compiler_at_hand() -> tuple[str, ...]:
    """The command `$CC`, with its options (`ccache gcc`, `gcc -m64`), or the path of `cc`, `gcc` or `clang`.

    Raises SpecError where there is none.
    """
    try:
        asked = shlex.split(os.environ.get("CC", ""))
    except ValueError as problem:
        raise SpecError(f"CC is not a command: {problem}", hint="CC=/path/of/a/compiler") from None
    for name, *options in [asked] if asked else [[name] for name in COMPILERS]:
        if (found := shutil.which(name)) is not None:
            return found, *options
    what = f"the C compiler {asked[0]!r} that CC names" if asked else "a C compiler (cc, gcc or clang)"
    raise SpecError(f"this needs {what}, which is not installed", hint="apt install gcc; or CC=/path/of/a/compiler")


def version_of(compiler: Sequence[str]) -> str:
    """The first line that a compiler says of itself."""
    done = subprocess.run([*compiler, "--version"], capture_output=True, text=True, timeout=30, check=False)
    return visible(done.stdout.partition("\n")[0].strip()) or _name(compiler)


def _name(compiler: Sequence[str]) -> str:
    return " ".join([Path(compiler[0]).name, *compiler[1:]])


class Library:
    """The function `nest` of a file of fast code; call it with the arrays of its inputs and of its output."""

    def __init__(self, text: str, folder: Path, compiler: Sequence[str], *, threads: bool = False) -> None:
        """Compile and open `text` in `folder`, with OpenMP for `threads`. Raises SpecError when that fails."""
        source, library = folder / "fast.c", folder / "fast.so"
        source.write_text(text)
        flags = [*FLAGS, *(["-fopenmp"] if threads else [])]
        command = [*compiler, *flags, str(source), "-o", str(library)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise SpecError(f"the C compiler took more than {MOST_SECONDS} s", hint="choose a smaller tile") from None
        if done.returncode != 0:
            said = short(done.stderr.strip() or f"exit status {done.returncode}", 400)
            raise SpecError(f"the C compiler {_name(compiler)} refused the code: {said}", hint="try another with CC")
        self._nest = ctypes.CDLL(str(library)).nest

    def __call__(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Run the nest once. Raises ValueError for an array that does not lie in memory in its own order."""
        self.on(arrays)()

    def on(self, arrays: Sequence[NDArray[Any]]) -> Callable[[], object]:
        """A call of the nest with the arrays, which have to live on; it takes no time for where they lie.

        Raises ValueError for an array that does not lie in memory in its own order.
        """
        if not all(array.flags.c_contiguous for array in arrays):
            raise ValueError("the arrays must be contiguous")
        return partial(self._nest, *(ctypes.c_void_p(array.ctypes.data) for array in arrays))


def aligned(shape: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array that begins with a line of the caches, filled with NaN, whole numbers with the least one."""
    count = int(np.prod(shape))
    room = np.empty(count * dtype.itemsize + 64, np.uint8)
    start = -room.ctypes.data % 64
    values = room[start : start + count * dtype.itemsize].view(dtype).reshape(shape)
    values[...] = np.nan if dtype.kind == "f" else np.iinfo(dtype).min
    return values
