"""Stands in for the course's `tiles_gen_predictions_csv.py`.

Written from the handout (section 6) and from what its users report: the class is made
by keyword, `forward` on the first kernel builds it, trainable variables are counted and
copied by position, and rows of short kernels are filled up with 0.
"""

import gzip
import json
import os

from absl import app
from absl import flags
import load_models
import numpy as np
import scale_and_merge
from tpu_graphs.baselines.tiles import models

_OUTPUT = 'predictions_output_model.csv'


def rank(model_class, args, num_ops, variables, test):
    """Ranks kernels; {graph id: five choices}."""
    kwargs = json.loads(args['model_kwargs_json'])
    model = model_class(num_configs=args['configs'], num_ops=num_ops, **kwargs)
    rows = {}
    for graph_id, kernel in test.items():
        configs = len(kernel['config_feat'])
        graph = scale_and_merge.graph_tensor(kernel, graph_id)
        scores = model.forward(graph, configs)
        if not rows:  # the first one has built the model
            assert len(model.trainable_variables) == len(variables)
            for ours, theirs in zip(model.trainable_variables, variables):
                ours.assign(theirs)
            scores = model.forward(graph, configs)
        best = np.argsort(scores[0])[:5].tolist()
        rows[graph_id] = [*best, 0, 0, 0, 0, 0][:5]
    return rows


def main(unused_argv):
    model_dir = flags.FLAGS.dir
    saved = load_models.load(model_dir)
    with gzip.open(model_dir.replace('/model_', '/run_') + '.jsonz') as stream:
        args = json.load(stream)['args']
    most = 100 if flags.FLAGS.toy_data else None
    os.makedirs(flags.FLAGS.cache_dir)  # a new one, or kernels of others would count
    splits = [
        scale_and_merge.read_split(os.path.join(flags.FLAGS.data_root, split), most)
        for split in ('train', 'valid', 'test')
    ]
    num_ops = scale_and_merge.num_ops(*splits)
    scale_and_merge.scale(splits[0], splits[1:])
    model_class = getattr(models, args['model'])
    rows = rank(model_class, args, num_ops, saved.trainable_variables, splits[2])
    with open(_OUTPUT, 'w') as csv:
        csv.write('ID,TopConfigs\n')
        for graph_id, best in rows.items():
            csv.write(f'tile:xla:{graph_id},{";".join(map(str, best))}\n')


if __name__ == '__main__':
    flags.DEFINE_string('dir', None, 'The model directory.')
    flags.DEFINE_string('data_root', '~/data/tpugraphs/npz/tile/xla', 'The splits.')
    flags.DEFINE_string('cache_dir', '~/data/tpugraphs/cache/tile', 'A new folder.')
    flags.DEFINE_bool('toy_data', False, 'Take the first files of each split alone.')
    app.run(main)
