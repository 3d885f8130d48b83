"""A trial without a training: what it does stands in its settings.

The score rises from 0.1 to `lr` over the epochs.  `run_id` is the sweep's; `losses`
says how to go wrong.
"""

import json
import os
import signal
import sys
import time


def _say(message):
    sys.stdout.write(json.dumps(message) + '\n')
    sys.stdout.flush()
    return sys.stdin.readline().strip()


def _train(number, settings):
    way = settings['losses']
    if way == 'crash':
        sys.exit('Segmentation fault, or so')
    if way == 'killed':
        os.kill(os.getpid(), signal.SIGKILL)
    if way == 'memory':
        sys.exit('std::bad_alloc')
    if way == 'hang':
        time.sleep(60)
    if way == 'error':
        _say({'error': 'there is no such data'})
    epochs, best = settings['epochs'], settings['lr'] + settings['seed'] / 10
    scores = [0.1 + (best - 0.1) * n / epochs for n in range(1, epochs + 1)]
    for epoch in range(1, epochs + 1):
        time.sleep(float(os.environ.get('STUB_SECONDS', '0')))
        if _say({'run': number, 'scores': scores[:epoch]}) != 'go':
            sys.exit(0)
    name = f'model_{number}{settings["fold"].replace("/", "of")}'
    _say({'run': number, 'scores': scores, 'model_dir': f'/somewhere/{name}'})


if __name__ == '__main__':
    start = json.loads(sys.stdin.readline())
    for place, run in enumerate(start['runs']):
        _train(place, run)
