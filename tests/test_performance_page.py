"""benchmarks/run.py writes the sections of scripts anew and leaves the others of docs/performance.md as they are."""

from benchmarks.run import HEAD, page

NOTES = {"fast": {"title": "Fast", "limits": "Nothing."}, "new": {"title": "New", "limits": "Much."}}
BEFORE = (
    HEAD
    + "\n## Fast\n\n<!-- fast -->\nold\n<!-- end -->\n\n**What limits.** All.\n\n## By hand\n\n| a |\n|---|\n| 1 |\n"
)


def test_a_section_without_a_script_is_kept_and_the_others_are_written_anew():
    assert page(BEFORE, NOTES, {"fast": "3 s\n"}) == (
        HEAD
        + "\n## Fast\n\n<!-- fast -->\n3 s\n<!-- end -->\n\n**What limits.** Nothing.\n"
        + "\n## By hand\n\n| a |\n|---|\n| 1 |\n"
        + "\n## New\n\n<!-- new -->\nNot measured yet.\n<!-- end -->\n\n**What limits.** Much.\n"
    )
