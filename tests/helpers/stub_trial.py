"""A training of a sweep without a model: what it does stands in its settings.

The score rises from 0.1 to `lr` + `seed` / 10 over the epochs; `averaging` says how
to go wrong.
"""

import os
import signal
import sys
import time


def train(config, after_epoch):
    """Stands for `trial.train_model`."""
    way = config.averaging
    if way == 'crash':
        print('Segmentation fault, or so')
        os._exit(1)
    if way == 'killed':
        os.kill(os.getpid(), signal.SIGKILL)
    if way == 'realtime':
        os.kill(os.getpid(), signal.SIGRTMIN + 1)
    if way == 'memory':
        sys.exit('std::bad_alloc')
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
    fold = config.fold.replace('/', 'of')
    return f'/somewhere/model_{config.seed}{fold}', {'val_opa': scores}
