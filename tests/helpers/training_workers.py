"""Workers of one training, processes on this machine: --strategy=workers."""

import json
import os
import socket
import subprocess
import sys

from tests.helpers import places


def start(script, flags, count=2, output=subprocess.PIPE):
    """Starts them; returns the processes, the chief first.

    Args:
        script: of the repository's root.
        flags: of each, by name.
        count: how many.
        output: where they write.
    """
    probes = [socket.create_server(('127.0.0.1', 0)) for _ in range(count)]
    addresses = [f'127.0.0.1:{probe.getsockname()[1]}' for probe in probes]
    for probe in probes:
        probe.close()
    words = [sys.executable, str(places.ROOT / script)]
    words += [f'--{name}={value}' for name, value in flags.items()]
    started = []
    for rank in range(count):
        task = {'type': 'worker', 'index': rank}
        cluster = {'cluster': {'worker': addresses}, 'task': task}
        environment = {
            **os.environ,
            'TF_CONFIG': json.dumps(cluster),
            'TF_CPP_MIN_LOG_LEVEL': '3',  # as by default
        }
        started.append(
            subprocess.Popen(
                words, env=environment, text=True, stdout=output, stderr=output
            )
        )
    return started
