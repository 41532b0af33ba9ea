"""The program of docs/python.md runs; its statements are true."""

import re
from pathlib import Path

PAGE = (Path(__file__).parent.parent / "docs" / "python.md").read_text()


def test_the_blocks_of_the_page_are_one_program_that_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 8
    exec(compile("\n".join(blocks), "docs/python.md", "exec"), {})
