"""Rows 143 to 169: machine facts that change the latency."""

from tests.catalogue.cases import error
from tests.catalogue.hardware import PRICED, READ, B, X, dimension, field


def startup(text):
    """A startup of the action `read` of the priced Buffer."""
    return [(READ, f"{READ}      startup: {text}\n")]


ROWS = [
    error(143, "no reads", field("ports: {write: 1}"), ["no port of 'Buffer' serves reads"], f"{B}.ports", on="ports"),
    error(
        143,
        "no writes",
        field("ports: {read: 2}"),
        ["serves writes", "ports: {read: 1, write: 1}"],
        f"{B}.ports",
        on="ports",
    ),
    error(144, "negative", field("ports: {read_write: -1}"), [">= 0", "-1"], f"{B}.ports.read_write", on="ports: {"),
    error(
        144, "half", field("ports: {read_write: 1.5}"), ["an integer", "1.5"], f"{B}.ports.read_write", on="ports: {"
    ),
    error(
        144,
        "infinite",
        field("ports: {read_write: inf}"),
        ["ports.read_write", "inf"],
        f"{B}.ports.read_write",
        on="ports: {",
    ),
    error(
        144, "no banks", field("banks: {number: 0}"), ["banks.number", ">= 1", "0"], f"{B}.banks.number", on="banks: {"
    ),
    error(
        145,
        "rule",
        field("banks: {number: 2, conflicts: ramdom}"),
        ["did you mean 'random'"],
        f"{B}.banks.conflicts",
        on="banks: {",
    ),
    error(
        145,
        "port",
        field("ports: {raed: 1}"),
        ["unknown field 'raed'", "did you mean 'read'"],
        f"{B}.ports.raed",
        on="ports: {",
    ),
    error(145, "bank", field("banks: {numbr: 1}"), ["unknown field 'numbr'"], f"{B}.banks.numbr", on="banks: {"),
    error(
        146,
        "both names",
        field("ports: {read_write: 2}\nseparate_read_write_ports: true"),
        ["separate_read_write_ports", "leave out one"],
        f"{B}.separate_read_write_ports",
        on="separate_read_write_ports",
    ),
    error(
        146,
        "an expression",
        field("banks: {number: 2}\ntotal_latency: read_latency"),
        ["banks and total_latency", "leave out one"],
        f"{B}.banks",
        on="banks: {",
    ),
    error(147, "kind", field("buffering: duoble"), ["did you mean 'double'"], f"{B}.buffering", on="buffering"),
    error(
        148,
        "negative",
        startup("-1"),
        ["startup", ">= 0", "-1"],
        f'{B}.actions[0] "read".startup',
        on="startup",
        base=PRICED,
    ),
    error(
        148,
        "infinite",
        startup("inf"),
        ["startup", "finite"],
        f'{B}.actions[0] "read".startup',
        on="startup",
        base=PRICED,
    ),
    error(149, "kind", dimension("skew: each"), ["unknown skew 'each'", "each_fold"], f"{X}.skew", on="skew"),
    error(
        147,
        "each time",
        field("buffering: single\nwind_up: true"),
        ["'Buffer' has one buffer", "leave out wind_up"],
        f"{B}.wind_up",
        on="wind_up",
    ),
]
