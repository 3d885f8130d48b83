"""Scores configurations of programs, computing each distinct state once.

See `pruning`.  The arrays that say what is a cell are made by numpy, and one
compiled function, for programs and configurations of all shapes, evaluates the
model on them.
"""

from typing import Any, Dict, Iterator, List, NamedTuple

import numpy as np
import tensorflow as tf

from baselines.layout import graphs as graphs_lib
from baselines.layout import models
from baselines.layout import pruning

# Configurations of a slice, if memory allows: more share more states, but what
# a slice computes should stay in cache.
_MOST_CONFIGS = 2048


class _Cells:
    """Some cells as tensors: `models.AllPairs` with equal ones left out."""

    def __init__(self, layers: List[Dict[str, Any]], configs: tf.Tensor):
        self._layers = layers
        self._configs = configs

    def add_base(self, layer, y, base):
        return y + tf.gather(base, self._layers[layer]['node'])

    def add_configs(self, layer, x, configs):
        return _add_to_first(x, configs, self._layers[layer - 1]['first'])

    def add_previous(self, layer, y, x):
        return _add_to_first(y, x, self._layers[layer]['previous'])

    def aggregate(self, layer, messages):
        arrays = self._layers[layer]
        count = tf.shape(arrays['node'])[0]
        return tf.add_n([
            models.multiply(models.Matrix(*entries), x, count)
            for entries, x in zip(arrays['messages'], messages)
        ])

    def pool(self, layer, y):
        arrays = self._layers[layer]
        of_config = arrays['of_config']
        first = tf.shape(arrays['first'])[0]
        return (
            self._sum(y, arrays, of_config),
            self._sum(y[:first], arrays, of_config[:, :arrays['first_groups']]),
        )

    def _sum(self, y, arrays, of_config):
        state = arrays['state'][:tf.shape(y)[0]]
        sums = tf.math.unsorted_segment_sum(y, state, arrays['num_states'])
        groups = tf.shape(of_config)[1]
        return tf.sparse.segment_sum(
            sums,
            tf.reshape(of_config, [-1]),
            tf.repeat(tf.range(self._configs), groups),
            num_segments=self._configs,
        )


def _add_to_first(x, y, rows):
    """Adds rows of y to the first rows of x."""
    size = tf.shape(rows)[0]
    return tf.concat([x[:size] + tf.gather(y, rows), x[size:]], 0)


class _Plan(NamedTuple):
    """What is known about a program before its configurations are."""

    structure: pruning.Structure
    bases: List[tf.Tensor]  # float32 [a_L, h] for each layer
    pooled: tf.Tensor  # float32 [1, h]
    size: tf.Tensor  # float32, nodes


class PrunedScorer:
    """Scores configurations with a `ResModel`, or what has its methods.

    Args:
        model: with `node_inputs`, `prepare`, `variable_sums`, `read_out` and
            `num_gnns`.
        memory_budget: bytes that computing a slice of configurations may take.
    """

    def __init__(self, model: tf.keras.Model, memory_budget: int = 1 << 30):
        self._model = model
        self._budget = memory_budget
        self._prepare = tf.function(self._prepare_program, reduce_retracing=True)
        self._score = tf.function(self._score_cells, reduce_retracing=True)

    def score(self, program: graphs_lib.Program) -> np.ndarray:
        """Scores the distinct configurations: float32 [u]."""
        plan = self._plan(program)
        most = _MOST_CONFIGS
        scores = np.empty(len(program.codes), np.float32)
        done = 0
        while done < len(scores):
            codes = np.asarray(program.codes[done:done + most])
            states = plan.structure.states(codes)
            if len(codes) > 1 and self._bytes(plan, states) > self._budget:
                most = max(len(codes) // 2, 1)
                continue
            scores[done:done + len(codes)] = self._score_slice(
                program, plan, codes, states
            )
            done += len(codes)
        return scores

    def _plan(self, program: graphs_lib.Program) -> _Plan:
        packed = graphs_lib.LayoutGraphs([program]).items(
            np.zeros([1, 1], np.int64), np.zeros([1, 1, 1], np.int64)
        )
        matrices, affected, bases, pooled = self._prepare(packed)
        matrices = [pruning.Entries(*[c.numpy() for c in m]) for m in matrices]
        affected = [int(count) for count in affected]
        return _Plan(
            pruning.Structure.build(matrices, affected),
            bases,
            pooled,
            tf.constant(program.num_nodes, tf.float32),
        )

    def _prepare_program(self, packed):
        graph, _ = graphs_lib.unpack(packed, 0, 1)
        nodes = self._model.node_inputs(graph)
        ones = tf.ones([tf.shape(nodes)[0], 1])
        prepared = self._model.prepare(graph, nodes, '', ones)
        vary = prepared.affected[-1]
        return (
            [tuple(m) for m in prepared.matrices],
            prepared.affected,
            [base[:vary] for base in prepared.bases],
            prepared.pooled,
        )

    def _bytes(self, plan: _Plan, states) -> int:
        cells, messages = plan.structure.num_cells(states)
        width = plan.pooled.shape[-1]
        pairs = sum(s.of_config.size for s in states)
        return 4 * width * 6 * cells + 64 * messages + 24 * pairs

    def _score_slice(self, program, plan, codes, states):
        arrays = plan.structure.cells(codes, states)
        configs = program.vectors[arrays['codes']]
        layers = [
            {
                **{k: np.asarray(v, np.int32) for k, v in layer.items()
                   if k != 'messages'},
                'messages': [
                    (m.rows.astype(np.int32), m.cols.astype(np.int32), m.values)
                    for m in layer['messages']
                ],
            }
            for layer in arrays['layers']
        ]
        return self._score(
            plan.bases, plan.pooled, plan.size, configs, layers, len(codes)
        ).numpy()

    def _score_cells(self, bases, pooled, size, configs, layers, count):
        cells = _Cells(layers, count)
        total, configurable = self._model.variable_sums(bases, configs, cells)
        scores = self._model.read_out(total + pooled, configurable, size)
        return scores[:, 0]
