"""The program `einmap`, also run as `python -m einmap`."""

import gc
import os


def main() -> None:
    """Run the command line on sys.argv. Ends with SystemExit, as `cli.main.main` does.

    Ctrl-C gives exit status 130 and no traceback, while the program still loads its modules too.
    """
    # What is imported lives on: looking at it again and again would free nothing. A command begins with collections on.
    gc.disable()
    # plugins of Pydantic are looked for in each installed package
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        from einmap.later_methods import compile_methods_later

        compile_methods_later()
        from einmap.cli.main import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        gc.enable()


if __name__ == "__main__":
    main()
