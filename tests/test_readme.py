"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def block(language, number=0):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)[number]


def test_the_worked_example_prints_what_the_readme_says(tmp_path):
    (tmp_path / "matmul.yaml").write_text(block("yaml"))
    (tmp_path / "example.py").write_text(block("python"))
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    printed = README.split("prints\n\n```\n")[1].split("```")[0]
    assert done.stdout == printed
