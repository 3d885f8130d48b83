"""The worker processes of one training: TF_CONFIG, and Ctrl-C while they wait."""

from collections.abc import Iterator
import contextlib
import signal
import threading

from baselines.core import text
from baselines.core import untrusted


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Lets Ctrl-C end the process at once, even while C++ code is waiting."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def parse_cluster(variable: str) -> int:
    """Checks TF_CONFIG, which TensorFlow reads; returns the number of this worker.

    Raises:
        ValueError: it is malformed, or a cluster of other tasks than workers.
    """
    example = (
        '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
        '"task": {"type": "worker", "index": 0}}'
    )
    try:
        content: text.JsonObject = untrusted.loads(variable)
        addresses = content['cluster']['worker']
        kind, rank = content['task']['type'], int(content['task']['index'])
        ports = [int(address.rpartition(':')[2]) for address in addresses]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(
            f'--strategy=workers needs the variable TF_CONFIG, such as {example}; it '
            f'is {variable!r}'
        ) from None
    # Parameter servers and evaluators, which TensorFlow also knows, have no role here.
    if list(content['cluster']) != ['worker'] or kind != 'worker':
        raise ValueError(
            'TF_CONFIG: a cluster has tasks of type worker here, and no other'
        )
    if len(set(addresses)) < len(addresses) or not all(0 < p < 1 << 16 for p in ports):
        raise ValueError(f'TF_CONFIG: workers need an address each, not {addresses}')
    if not 0 <= rank < len(addresses):
        raise ValueError(
            f'TF_CONFIG: index {rank} is none of {len(addresses)} workers, from 0'
        )
    return rank
