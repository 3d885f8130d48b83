"""Commands: `python -m baselines.commands.<name>`, or `tpugraphs <name>`.

Each module holds one command: its docstring is the help text,
`add_arguments(parser)` declares the options, and `run(args)` does the work.
"""
