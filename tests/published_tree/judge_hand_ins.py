"""Does with hand-ins what a training and the course's script do: DATA OUT.JSON FILE ...

Each FILE holds a class of the file's name.  Writes by name 'ranks', 'ranks otherwise'
than the trained model, or 'fails' and how.
"""

import importlib.util
import json
import os
import sys

import course_script
import numpy as np
import scale_and_merge
import tensorflow as tf
from tpu_graphs.baselines import tiles

_ARGS = {'configs': 4, 'model_kwargs_json': '{}'}


def _load(path):
    """Imports a file as the models.py of the tree."""
    name = f'{tiles.__name__}.models'
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = tiles.models = module
    spec.loader.exec_module(module)
    return module


def _judge(path, num_ops, train, test):
    tf.keras.utils.set_random_seed(0)
    name = os.path.basename(path).partition('.')[0]
    try:
        model_class = getattr(_load(path), name)
        rows = course_script.rank(model_class, _ARGS, num_ops, (), {})
        # A training makes it by position and builds it by `call`.
        model = model_class(_ARGS['configs'], num_ops)
        for _ in range(2):
            model(train, training=True)
        rng = np.random.default_rng(0)
        for variable in model.trainable_variables:
            variable.assign(rng.normal(0, 1, variable.shape))
        weights = [v.numpy() for v in model.trainable_variables]
        rows = course_script.rank(model_class, _ARGS, num_ops, weights, test)
    except (Exception, SystemExit) as error:
        return f'fails: {type(error).__name__}'
    for graph_id, kernel in test.items():
        count = len(kernel['config_feat'])
        scores = model.forward(scale_and_merge.graph_tensor(kernel), count)[0]
        best = np.argsort(scores)[:5].tolist()
        if rows[graph_id][: len(best)] != best:
            return 'ranks otherwise'
    return 'ranks'


def main(data_root, output, *paths):
    splits = [
        scale_and_merge.read_split(os.path.join(data_root, split))
        for split in ('train', 'valid', 'test')
    ]
    num_ops = scale_and_merge.num_ops(*splits)
    scale_and_merge.scale(splits[0], splits[1:])
    kernel = next(iter(splits[0].values()))
    for key in ('config_feat', 'config_runtime', 'config_runtime_normalizers'):
        kernel[key] = kernel[key][: _ARGS['configs']]
    train = scale_and_merge.graph_tensor(kernel)
    verdicts = {path: _judge(path, num_ops, train, splits[2]) for path in paths}
    with open(output, 'w') as stream:
        json.dump(verdicts, stream)


if __name__ == '__main__':
    main(*sys.argv[1:])
