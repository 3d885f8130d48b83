"""A training of a sweep without a model: what it does stands in its settings.

The score rises from 0.1 to `lr` + `seed` / 10 over the epochs; `averaging` says how
to go wrong.
"""

import os
import signal
import time

if os.environ.get('STUB_INTERRUPT'):  # Ctrl-C while the process of a trial starts
    os.kill(os.getpid(), signal.SIGINT)


def train(config, after_epoch):
    """Stands for `training.train_model`."""
    print(f'seed {config.seed}, fold {config.fold}')
    way = config.averaging
    if way == 'killed':
        os.kill(os.getpid(), signal.SIGKILL)
    if way == 'memory':
        raise MemoryError
    if way == 'hang':
        time.sleep(600)
    if way == 'error':
        raise ValueError('there is no\nsuch data')
    best = config.lr + config.seed / 10
    scores = []
    for epoch in range(1, config.epochs + 1):
        time.sleep(float(os.environ.get('STUB_SECONDS', '0')))
        scores.append(0.1 + (best - 0.1) * epoch / config.epochs)
        after_epoch({'val_opa': scores})
    return {'val_opa': scores}
