"""A Dask cluster on this machine: a scheduler and workers, each a process."""

import contextlib
import os
import socket
import subprocess
import sys

from tests.helpers import places


@contextlib.contextmanager
def cluster(folder, workers=2):
    """Starts it; yields (its address, the processes of the workers)."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    address = f'tcp://127.0.0.1:{port}'
    environment = {**os.environ, 'PYTHONPATH': str(places.ROOT)}
    started = []

    def start(name, *words):
        with open(folder / f'{name}_{len(started)}.log', 'wb') as log:
            process = subprocess.Popen(
                [sys.executable, '-m', f'distributed.cli.dask_{name}', *words],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=log,
            )
        started.append(process)

    options = ('--host=127.0.0.1', '--no-dashboard')
    try:
        start('scheduler', f'--port={port}', *options)
        for _ in range(workers):
            start('worker', address, '--nthreads=1', '--no-nanny', *options)
        yield address, started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()
