"""Rows 143 to 169: machine facts that change the latency."""

from tests.catalogue.cases import error
from tests.catalogue.hardware import PRICED, READ, B, X, dimension, field


def pipeline(text):
    """A pipeline latency of the action `read` of the priced Buffer."""
    return [(READ, f"{READ}      pipeline_latency: {text}\n")]


def startup(text):
    """A startup of the action `read` of the priced Buffer."""
    return [(READ, f"{READ}      startup: {text}\n")]


LANES = "    - {name: lanes, fanout: 2, vector: true, min_usage: 0.5}\n"

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
    error(153, "kind", field("stalls: tile_by_tlie"), ["did you mean 'tile_by_tile'"], f"{B}.stalls", on="stalls"),
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
        152,
        "negative",
        pipeline("-1"),
        ["pipeline_latency", ">= 0", "-1"],
        f'{B}.actions[0] "read".pipeline_latency',
        on="pipeline_latency",
        base=PRICED,
    ),
    error(
        152,
        "infinite",
        pipeline("inf"),
        ["pipeline_latency", "finite"],
        f'{B}.actions[0] "read".pipeline_latency',
        on="pipeline_latency",
        base=PRICED,
    ),
    *(
        error(
            150,
            what,
            dimension(f"loop_bounds: [{{expression: m, operator: {operator}, value: {value}}}]"),
            says,
            f"{X}.loop_bounds[0].value",
            on="loop_bounds",
        )
        for what, operator, value, says in (
            ("no list", "one_of", "2", ["list of integers", "[1, 2, 4]", "found 2"]),
            ("empty", "product_one_of", "[]", ["empty list"]),
            ("a list", "multiple_of", "[2, 4]", ["one integer", "found a list"]),
            ("of 0", "multiple_of", "0", [">= 1", "0"]),
            ("half", "one_of", "[1, 2.5]", ["an integer", "2.5"]),
        )
    ),
    error(
        151,
        "no compute",
        dimension("vector: true"),
        ["'X' of 'Array' is a vector", "not a Compute"],
        f"{X}.vector",
        on="vector",
    ),
    error(
        151,
        "half",
        [("    component_class: Dummy\nworkload", f"    component_class: Dummy\n    spatial:\n{LANES}workload")],
        ["the vector 'lanes' uses all lanes", "leave out min_usage"],
        'arch.nodes[3] "MAC".spatial[0] "lanes".min_usage',
        on="lanes",
    ),
    error(
        147,
        "each time",
        field("buffering: single\nwind_up: true"),
        ["'Buffer' has one buffer", "leave out wind_up"],
        f"{B}.wind_up",
        on="wind_up",
    ),
]
