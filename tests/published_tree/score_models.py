"""Scores a kernel with every model of the published tree: INPUTS OUT MODEL ...

INPUTS.npz holds a kernel's arrays, num_ops, and for each model its weights as
<model>_<number>.
"""

import sys

import numpy as np
import scale_and_merge
from tpu_graphs.baselines.tiles import models


def main(inputs, out, *names):
    stored = np.load(inputs)
    graph = scale_and_merge.graph_tensor(stored)
    scores = {}
    for name in names:
        configs = len(stored['config_feat'])
        model = getattr(models, name)(configs, int(stored['num_ops']))
        model(graph)
        for i, variable in enumerate(model.trainable_variables):
            variable.assign(stored[f'{name}_{i}'])
        scores[name] = model(graph, training=False).numpy()
        scores[name + '_forward'] = model.forward(graph, configs).numpy()
    np.savez(out, **scores)


if __name__ == '__main__':
    main(*sys.argv[1:])
