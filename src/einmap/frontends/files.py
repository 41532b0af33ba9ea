"""Files: text read whole, with clear errors; text and bytes written whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from einmap.errors import At, SpecError

MAX_TEXT = 20_000_000


@dataclass(slots=True)
class Reading:
    """Record of reading: all files, and the variables that their templates ask for, in branches not taken too."""

    files: list[Path] = field(default_factory=list)
    variables: set[str] = field(default_factory=set)


_READING: ContextVar[Reading | None] = ContextVar("_READING", default=None)


@contextmanager
def noted_reading() -> Iterator[Reading]:
    """Note all that is read inside the `with` block: by a template, a tag, or another function.

    So that one place knows all that a result was made from: nothing of it is overwritten, and a value that no
    template asks for is found.
    """
    reading = Reading()
    token = _READING.set(reading)
    try:
        yield reading
    finally:
        _READING.reset(token)


def reading() -> Reading | None:
    """The `Reading` in which files are noted now; None outside of `noted_reading`."""
    return _READING.get()


def exists(path: str | Path) -> bool:
    """Whether there is something at `path`; False as well for names that no file can have."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def read_text_file(path: Path) -> str:
    """The text of a regular UTF-8 file of at most MAX_TEXT bytes; SpecError says why others are refused."""
    at = At(str(path))
    if (noted := reading()) is not None:
        noted.files.append(path)
    try:
        if path.is_dir():
            raise SpecError("this is a directory, not a file", at=at, hint=f"name the files in it: {path}/*.yaml")
        if not path.is_file():
            raise SpecError("there is no such file" if not path.exists() else "this is not a regular file", at=at)
        if (size := path.stat().st_size) > MAX_TEXT:
            raise SpecError(f"the file has {size:,} bytes, more than {MAX_TEXT:,}", at=at)
        content = path.read_bytes()
    except OSError as error:
        raise SpecError(f"cannot read the file: {_reason(error)}", at=at) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        text = f"the file is not UTF-8 text: byte 0x{content[error.start]:02X}"
        raise SpecError(text, at=At(str(path), line), hint="save it with the encoding UTF-8") from error


def write_atomically(path: str | Path, text: str, *, replace: bool = True) -> None:
    """Replace the file at `path` by `text`, or leave it as it was and raise SpecError.

    The text goes to a new file beside it first, which then takes its name in one step; readers see the
    old text or the new one. A link is followed: the file it names is replaced. Without `replace` a file that
    is there, even one that has come just now, is an error.
    """
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        raise SpecError(f"the text cannot be written as UTF-8: {error.reason}", at=At(str(path))) from error
    write_bytes_atomically(path, content, replace=replace)


def write_bytes_atomically(path: str | Path, content: bytes, *, replace: bool = True) -> None:
    """Write `content` as `write_atomically` writes a text."""
    write_pieces_atomically(path, (content,), replace=replace)


def write_pieces_atomically(path: str | Path, pieces: Iterable[bytes], *, replace: bool = True) -> None:
    """Write a file that is made piece by piece, as `write_atomically` writes a text."""
    path = Path(path)
    try:
        target = path.resolve()
        check_target(target)
        _replace(target, pieces, replace=replace)
    except FileExistsError as error:
        raise file_exists(path) from error
    except (OSError, RuntimeError) as error:
        raise SpecError(f"cannot write the file: {_reason(error)}", at=At(str(path))) from error


def write_folder(folder: Path, texts: Mapping[str, str], *, replace: bool = False) -> None:
    """Write one file for each name (with folders of its own, `a/b.csv`) into `folder`, which is made if there is none;
    all of them, or none.

    All texts are written to a new folder beside it first. Where `folder` is new that one takes its name in one step;
    else file by file. Without `replace` a file that is there is an error. Raises SpecError.
    """
    try:
        contents = {name: text.encode() for name, text in texts.items()}
    except UnicodeEncodeError as error:
        raise SpecError(f"the text cannot be written as UTF-8: {error.reason}", at=At(str(folder))) from error
    try:
        target = folder.resolve()
        staging = target.with_name(f".{secrets.token_hex(8)}.tmp")
        staging.mkdir()
        try:
            for name, content in contents.items():
                (staging / name).parent.mkdir(parents=True, exist_ok=True)
                _write_through(staging / name, content)
            if not target.exists():
                staging.rename(target)
                return
            _move_all(staging, target, list(contents), replace=replace)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise SpecError(f"cannot write the folder: {_reason(error)}", at=At(str(folder))) from error


def _write_through(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _move_all(staging: Path, target: Path, names: Iterable[str], *, replace: bool) -> None:
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if replace:
            (staging / name).replace(target / name)
            continue
        try:
            _take_name(staging / name, target / name)
        except FileExistsError as error:
            raise file_exists(target / name) from error


def put_file(path: Path, content: bytes) -> None:
    """Give a new file the name `path` in one step. A link is replaced, not followed, and no mode is kept.

    So whatever stood there cannot steer what is written, nor where. Raises SpecError.
    """
    try:
        _replace(path, (content,), keep_mode=False)
    except OSError as error:
        raise SpecError(f"cannot write the file: {_reason(error)}", at=At(str(path))) from error


def file_exists(path: Path) -> SpecError:
    """The error for a file that is there and is not to be replaced."""
    return SpecError("the file exists", at=At(str(path)), hint="choose another name, or replace it with --force")


def check_target(path: Path) -> None:
    """Raise SpecError when no file can be written at `path`."""
    try:
        _check_target(path.resolve(), At(str(path)))
    except (OSError, RuntimeError, ValueError) as error:
        raise SpecError(f"no file can be written there: {_reason(error)}", at=At(str(path))) from error


def _check_target(target: Path, at: At) -> None:
    if not target.parent.is_dir():
        raise SpecError(f"the directory {target.parent} does not exist", at=at, hint="create it first")
    if target.is_dir():
        raise SpecError("this is a directory, not a file", at=at, hint="add a file name")
    if target.exists() and not target.is_file():
        raise SpecError("this is not a regular file, it cannot be replaced", at=at)
    if not os.access(target.parent, os.W_OK):
        raise SpecError(f"the directory {target.parent} is not writable", at=at)


def _replace(target: Path, pieces: Iterable[bytes], *, keep_mode: bool = True, replace: bool = True) -> None:
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        if keep_mode and target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        if replace:
            temporary.replace(target)
        else:
            _take_name(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _take_name(temporary: Path, target: Path) -> None:
    """Rename, but raise FileExistsError where the name is taken: a plain rename would replace that file."""
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:  # some file systems have no hard links
        if target.exists():
            raise FileExistsError from None
        temporary.replace(target)
    else:
        temporary.unlink()


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
