"""The command `einmap`. Read `main` (the application), then one file for each command; `inputs` holds what
they read from the command line, `output` what they print, `searching` how a long search shows itself."""
