"""Regenerates predictions from a model directory: DIR DATA_ROOT OUTPUT.CSV

With the student's models.py in the published tree: the SavedModel gives the
weights, the code gives the model, the weights go over by position.
"""

import gzip
import json
import os
import sys

import load_models
import numpy as np
import scale_and_merge
from tpu_graphs.baselines.tiles import models


def main(model_dir, data_root, output):
    saved = load_models.load(model_dir)
    folder, name = os.path.split(model_dir)
    run_file = os.path.join(folder, name.replace('model_', 'run_') + '.jsonz')
    with gzip.open(run_file) as stream:
        args = json.load(stream)['args']
    train, valid, test = (
        scale_and_merge.read_split(os.path.join(data_root, split), least)
        for split, least in (('train', args['configs']), ('valid', 0), ('test', 0))
    )
    num_ops = scale_and_merge.num_ops(train, valid, test)
    scale_and_merge.scale(train, [valid, test])
    model_class = getattr(models, args['model'])
    model = model_class(
        args['configs'], num_ops, **json.loads(args['model_kwargs_json'])
    )
    first = next(iter(test.values()))
    model.forward(scale_and_merge.graph_tensor(first), len(first['config_feat']))
    assert len(model.trainable_variables) == len(saved.trainable_variables)
    for ours, theirs in zip(model.trainable_variables, saved.trainable_variables):
        ours.assign(theirs)
    with open(output, 'w') as csv:
        csv.write('ID,TopConfigs\n')
        for graph_id, kernel in test.items():
            graph = scale_and_merge.graph_tensor(kernel, graph_id)
            scores = model.forward(graph, len(kernel['config_feat']))
            best = np.argsort(scores[0])[:5]
            csv.write(f'tile:xla:{graph_id},{";".join(map(str, best))}\n')


if __name__ == '__main__':
    main(*sys.argv[1:])
