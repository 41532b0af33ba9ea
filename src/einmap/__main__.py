"""The program `einmap`, also run as `python -m einmap`."""


def main() -> None:
    """Run the command line on sys.argv. Ends with SystemExit, as `cli.main.main` does.

    Ctrl-C gives exit status 130 and no traceback, while the program still loads its modules too.
    """
    try:
        from einmap.cli.main import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
