"""The worker processes of one training: TF_CONFIG, and waiting until all are there."""

from collections.abc import Iterator
import contextlib
import hashlib
import json
import math
import os
import signal
import socket
import threading
import time

from baselines.core import text
from baselines.core import untrusted

# Seconds that workers wait for each other at the start.
_DEADLINE = 300.0
_DEADLINE_VARIABLE = 'TPUGRAPHS_WORKER_SECONDS'


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


def parse_cluster(variable: str) -> tuple[list[str], int]:
    """Reads TF_CONFIG: (addresses of the workers, number of this one).

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
    return addresses, rank


def wait_for_all(addresses: list[str], rank: int) -> None:
    """Waits until each worker has sent its greeting to all others.

    TensorFlow would wait forever, ignoring Ctrl-C, for a worker that is missing, or
    whose port another program uses.

    Raises:
        ValueError: a worker did not appear in time, or this worker's port is in use.
    """
    seconds = _seconds_to_wait()
    deadline = time.monotonic() + seconds
    # Greetings are hashes of the whole cluster's addresses and a rank, so a worker
    # of another training, or another program, is not taken for one of ours.
    others = {_greeting(addresses, n): n for n in range(len(addresses)) if n != rank}
    unsent, unreceived = set(others.values()), set(others.values())
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(('', int(addresses[rank].rpartition(':')[2])))
        except OSError as error:
            raise ValueError(
                f'TF_CONFIG: worker {rank} cannot listen at {addresses[rank]}: '
                f'{error.strerror}'
            ) from None
        server.listen(len(addresses))
        server.settimeout(0.1)
        greeting = _greeting(addresses, rank)
        # Both directions: a worker that has been greeted may not have greeted us.
        while (unsent or unreceived) and time.monotonic() < deadline:
            unsent -= {n for n in unsent if send_greeting(addresses[n], greeting)}
            unreceived.discard(others.get(_receive_greeting(server), -1))
    missing = sorted(unsent | unreceived)
    if missing:
        names = ', '.join(f'{number} ({addresses[number]})' for number in missing)
        raise ValueError(
            f'--strategy=workers: worker {names} of TF_CONFIG did not come within '
            f'{seconds:g} s ({_DEADLINE_VARIABLE})'
        )


def _seconds_to_wait() -> float:
    """Reads the workers' timeout from an environment variable; raises ValueError."""
    value = os.environ.get(_DEADLINE_VARIABLE, '') or str(_DEADLINE)
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(
            f'{_DEADLINE_VARIABLE} should be a number above 0, not {value}'
        )
    return seconds


def _greeting(addresses: list[str], rank: int) -> bytes:
    """Returns the 32 bytes that identify a worker to the others of its training."""
    return hashlib.sha256(json.dumps([addresses, rank]).encode()).digest()


def send_greeting(address: str, greeting: bytes) -> bool:
    """Sends a greeting to an address; returns whether a program listens there."""
    host, _, port = address.rpartition(':')
    try:
        with socket.create_connection((host, int(port)), timeout=1) as connection:
            connection.sendall(greeting)
            return True
    except OSError:
        return False


def _receive_greeting(server: socket.socket) -> bytes:
    """Returns the greeting of the next connection; b'' for none within the timeout."""
    try:
        connection = server.accept()[0]
        with connection:
            connection.settimeout(1)
            return connection.recv(32, socket.MSG_WAITALL)
    except OSError:
        return b''
