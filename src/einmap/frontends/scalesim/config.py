"""A configuration of SCALE-Sim 3, `.cfg`: the array, its buffers and its dataflow."""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from einmap.errors import At, SpecError, did_you_mean
from einmap.frontends.files import read_text_file
from einmap.frontends.foreign import LONGEST_KEY, Report
from einmap.visible import short

type Dataflow = Literal["os", "ws", "is"]
MOST = 2**40
_ARCHITECTURE, _PRESETS, _LAYOUT = "architecture_presets", "run_presets", "layout"
_DATAFLOWS: tuple[str, ...] = get_args(Dataflow.__value__)
_SWITCHES = {
    "ifmapcustomlayout": "layouts inside the buffers are not counted",
    "filtercustomlayout": "layouts inside the buffers are not counted",
    "sparsitysupport": "weights are counted as dense",
    "useramulatortrace": "transfers of main memory take what `throughput` says",
}
"""Keys that change SCALE-Sim's counts where they are true."""
_WITHOUT_EFFECT = {
    *("run_name", "topologycsvloc", "ifmapoffset", "filteroffset", "ofmapoffset", "memorybanks"),
    *("readrequestbuffer", "writerequestbuffer", "ifmapsrambanknum", "ifmapsrambankport", "filtersrambanknum"),
    *("filtersrambankport", "sparserep", "optimizedmapping", "blocksize", "randomnumbergeneratorseed"),
}
"""Keys that change no count without one of the switches."""


@dataclass(frozen=True, slots=True)
class Config:
    """An array of `rows` x `columns` units. Buffers in bytes, of which one half is filled while the other is used.

    `words_per_cycle`: what main memory gives inputs and weights, and takes of results, a cycle; None: no limit.
    """

    rows: int
    columns: int
    dataflow: Dataflow
    input_bytes: int
    weight_bytes: int
    output_bytes: int
    words_per_cycle: tuple[int, int, int] | None
    at: At


class _Lines:
    """Values of a configuration with their lines. Names are told apart without regard to case, as SCALE-Sim does."""

    def __init__(self, path: Path) -> None:
        text = read_text_file(path)
        self.path = path
        self.parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            self.parser.read_string(text, str(path))
        except configparser.Error as error:
            line = getattr(error, "lineno", None)
            at = At(str(path), line if isinstance(line, int) else 1)
            hint = "a section [architecture_presets] has lines such as `ArrayHeight: 32`"
            raise SpecError("this is not a configuration of SCALE-Sim", at=at, hint=hint) from error
        self.asked: set[tuple[str, str]] = set()
        self._lines: dict[tuple[str, str], int] = {}
        section = ""
        for number, line in enumerate(text.splitlines(), 1):
            if found := re.match(r"\[([^]]+)\]", line):
                section = found[1]
            elif found := re.match(r"([^\s:=#;][^:=]*?)\s*[:=]", line):
                self._lines[section, found[1].lower()] = number

    def place(self, section: str, key: str) -> At:
        return At(str(self.path), self._lines.get((section, key.lower()), 1), path=f"{section}.{key}")

    def text(self, section: str, key: str, without: str | None = None) -> str:
        self.asked.add((section, key.lower()))
        found = self.parser.get(section, key, fallback=without)
        if found is None:
            others = list(self.parser[section]) if self.parser.has_section(section) else self.parser.sections()
            raise SpecError(
                f"{key} is missing in [{section}]", at=At(str(self.path), 1), hint=did_you_mean(key, others)
            )
        return found.strip()

    def integer(self, section: str, key: str, without: str | None = None) -> int:
        found = self.text(section, key, without)
        if not re.fullmatch(r"\d{1,15}", found, re.ASCII) or not 0 < int(found) <= MOST:
            raise SpecError(f"expected an integer of at least 1, found {short(found)}", at=self.place(section, key))
        return int(found)

    def leave_others(self, report: Report) -> None:
        for section in self.parser.sections():
            for key in self.parser[section]:
                value = self.parser.get(section, key).strip().lower()
                if (section, key) in self.asked or key in _WITHOUT_EFFECT or (key in _SWITCHES and value == "false"):
                    continue
                reason = _SWITCHES.get(key, "it has no counterpart")
                report.leave(self.place(section, key), key[:LONGEST_KEY], reason)


def read_config(path: Path, report: Report) -> Config:
    """The configuration in a file; only `architecture_presets` has to be there. Raises SpecError with the line."""
    lines = _Lines(path)
    dataflow = lines.text(_ARCHITECTURE, "Dataflow")
    if dataflow not in _DATAFLOWS:
        at = lines.place(_ARCHITECTURE, "Dataflow")
        hint = did_you_mean(dataflow, _DATAFLOWS, listing="dataflows")
        raise SpecError(f"the dataflow {short(dataflow)} is not known", at=at, hint=hint)
    inputs, weights, outputs = (
        1024 * lines.integer(_ARCHITECTURE, f"{name}SramSzkB") for name in ("Ifmap", "Filter", "Ofmap")
    )
    result = Config(
        lines.integer(_ARCHITECTURE, "ArrayHeight"),
        lines.integer(_ARCHITECTURE, "ArrayWidth"),
        cast(Dataflow, dataflow),
        inputs,
        weights,
        outputs,
        _words_per_cycle(lines),
        At(str(path), 1),
    )
    lines.leave_others(report)
    return result


def _words_per_cycle(lines: _Lines) -> tuple[int, int, int] | None:
    """Words that each buffer has a cycle (`InterfaceBandwidth: USER`); None where SCALE-Sim calculates them."""
    mode = lines.text(_PRESETS, "InterfaceBandwidth", "CALC").upper()
    if mode not in ("CALC", "USER"):
        hint = "CALC takes what the array needs, USER what the file says"
        raise SpecError(
            f"expected CALC or USER, found {short(mode)}", at=lines.place(_PRESETS, "InterfaceBandwidth"), hint=hint
        )
    bandwidth = lines.text(_ARCHITECTURE, "Bandwidth", "10")
    banks = [lines.integer(_LAYOUT, f"{name}SRAMBankBandwidth", "10") for name in ("Ifmap", "Filter")]
    if mode == "CALC":
        return None
    first = bandwidth.split(",")[0].strip()
    if not re.fullmatch(r"\d{1,12}", first, re.ASCII) or not int(first):
        at = lines.place(_ARCHITECTURE, "Bandwidth")
        raise SpecError(f"expected words a cycle, found {short(bandwidth)}", at=at)
    return banks[0], banks[1], int(first)
