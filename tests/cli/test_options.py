"""Groups of options: a command that takes a group has all its options, but for those that it leaves out."""

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from einmap.cli.options import Without, argument, expanded, flag, group, option, several


@group
class Size:
    """Some options."""

    name: str = argument("NAME", "A name.")
    width: int = option("N", "How wide.", "-w", default=3, min=1)
    labels: list[str] = several("TEXT", "Labels.", "--label")
    bold: bool = flag("In bold.")


@group
class Print:
    """An option that both groups have, and one of its own."""

    bold: bool = flag("In bold.")
    colour: str | None = option("NAME", "A colour.")


def called(*words, without=()):
    """What a command with both groups is given, and the words of its help."""
    found = []
    app = typer.Typer()

    def show(size: Size, output: Annotated[Print, Without({"bold", *without})], *, loud: bool = False) -> None:
        """Show."""
        found.extend((size, output, loud))

    app.command()(expanded(show))
    done = CliRunner().invoke(app, [*words])
    return found, done


@pytest.mark.parametrize("width", ["--width", "-w"])
def test_values_reach_the_group_under_the_names_of_its_fields(width):
    (size, output, loud), _ = called("a", width, "4", "--label", "x", "--label", "y", "--bold", "--loud")
    assert (size, loud) == (Size(name="a", width=4, labels=["x", "y"], bold=True), True)
    assert output == Print(bold=True, colour=None)  # an option of two groups is one option


def test_without_values_there_are_the_defaults_and_lists_are_empty():
    (size, output, loud), _ = called("a")
    assert (size, loud) == (Size(name="a", width=3, labels=[], bold=False), False)
    assert output == Print(bold=False, colour=None)


def test_what_a_command_leaves_out_is_not_an_option_of_it():
    assert called("a", "--colour", "red")[0][1].colour == "red"
    found, done = called("a", "--colour", "red", without={"colour"})
    assert (found, done.exit_code) == ([], 2)
    assert called("a", without={"colour"})[0][1].colour is None
