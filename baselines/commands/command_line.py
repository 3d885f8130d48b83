"""What every command and script does around its work.

Mistakes of the user (`ValueError`, `OSError`) become one line on stderr and
exit code 1; set TPUGRAPHS_DEBUG=1 to see where they came from.  Anything else
is a defect of ours and keeps its traceback.
"""

import argparse
import importlib
import os
import sys
from typing import Callable, Optional, Sequence


def quiet_tensorflow() -> None:
    """Keeps TensorFlow's start-up messages from the user's terminal.

    Must run before TensorFlow is imported.  A level that the user has set in
    TF_CPP_MIN_LOG_LEVEL stays.
    """
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')


def guarded(work: Callable[[], Optional[int]]) -> int:
    """Runs `work` and returns an exit code; user errors become one line."""
    quiet_tensorflow()
    try:
        return work() or 0
    except KeyboardInterrupt:
        print('\ninterrupted', file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (`head`, a pager) has left; nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError) as error:
        if os.environ.get('TPUGRAPHS_DEBUG'):
            raise
        message = ' '.join(str(error).split()) or type(error).__name__
        print(f'error: {message}', file=sys.stderr)
        return 1


def run_command(module_name: str, argv: Optional[Sequence[str]] = None) -> int:
    """Parses `argv` for the command in `module_name` and runs it."""
    name = module_name.rpartition('.')[2]
    module = importlib.import_module(f'baselines.commands.{name}')
    parser = argparse.ArgumentParser(
        prog=f'tpugraphs {name}',
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    args = parser.parse_args(argv)
    return guarded(lambda: module.run(args))
