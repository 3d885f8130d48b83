"""Scores configurations of programs, computing each distinct state once.

See `pruning`.  NumPy makes the arrays that define the cells, and one compiled function,
for programs and configurations of all shapes, evaluates the model on them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from baselines.layout import graphs as graphs_lib
from baselines.layout import pruning
from baselines.tiles import graphs as tile_graphs
from baselines.tiles import implicit

# Configurations of a slice, if memory allows: more share more states, but what
# a slice computes should stay in cache.
_MOST_CONFIGS = 2048


class _Cells:
    """Cells as tensors, with the methods of `AllPairs` in `layout/models.py`."""

    def __init__(self, layers: list[dict[str, Any]], pool: dict[str, tf.Tensor]):
        self._layers = layers
        self._pool = pool

    def add_base(self, layer: int, y: tf.Tensor, base: tf.Tensor):
        return y + tf.gather(base, self._layers[layer]['node'])

    def add_configs(self, layer: int, x: tf.Tensor, configs: tf.Tensor):
        return _add_to_first(x, configs, self._layers[layer - 1]['first'])

    def add_previous(self, layer: int, y: tf.Tensor, x: tf.Tensor):
        return _add_to_first(y, x, self._layers[layer]['previous'])

    def aggregate(self, layer: int, messages: Sequence[tf.Tensor]):
        arrays = self._layers[layer]
        count = tf.shape(arrays['node'])[0]
        return tf.add_n(
            [_multiply(m, x, count) for m, x in zip(arrays['messages'], messages)]
        )

    def pool(self, x: tf.Tensor):
        first = self._pool['first_cells']
        of_config = self._pool['of_config']
        of_first = of_config[:, : self._pool['first_groups']]
        return self._sum(x, None, of_config), self._sum(x, first, of_first)

    def _sum(self, x: tf.Tensor, count: tf.Tensor | None, of_config: tf.Tensor):
        """Sums x over cells of a state, and these over states of a configuration."""
        state = self._pool['state'][:count]
        members = (state, tf.range(tf.size(state)), tf.ones(tf.shape(state), x.dtype))
        sums = _multiply(members, x, self._pool['num_states'])
        configs, groups = tf.unstack(tf.shape(of_config))
        return tf.sparse.segment_sum(
            sums,
            tf.reshape(of_config, [-1]),
            tf.repeat(tf.range(configs), groups),
            num_segments=configs,
        )


def _multiply(entries: Sequence[tf.Tensor], x: tf.Tensor, num_rows: tf.Tensor):
    """Multiplies a matrix of (rows, columns, values) with x, [columns, d]."""
    shape = (num_rows, tf.shape(x)[0])
    return implicit.Multiplier(shape, implicit.Entries(*entries)) @ x


def _add_to_first(x: tf.Tensor, y: tf.Tensor, rows: tf.Tensor):
    """Adds y[rows] to the first rows of x."""
    size = tf.shape(rows)[0]
    return tf.concat([x[:size] + tf.gather(y, rows), x[size:]], 0)


class _Plan(NamedTuple):
    """A program prepared for scoring: the parts that no configuration changes."""

    structure: pruning.Structure
    bases: list[tf.Tensor]  # per layer float32 [a_L, h]
    pooled: tf.Tensor  # float32 [1, h]


class PrunedScorer:
    """Scores configurations with a `ResModel`, or a model that shows its parts.

    Args:
        model: with `node_inputs`, `prepare`, `variable_sums`, `read_out` and
            `num_gnns`.
        memory_budget: bytes that computing a slice of configurations may take.
    """

    def __init__(self, model: tf.keras.Model, memory_budget: int = 1 << 30):
        self._model = model
        self._budget = memory_budget
        self._prepare = tile_graphs.trace_once(self._prepare_program)
        self._score = tile_graphs.trace_once(self._score_cells)

    def score(self, program: graphs_lib.ScaledProgram) -> np.ndarray:
        """Scores the distinct configurations: float32 [u]."""
        plan = self._prepare_plan(program)
        most = _MOST_CONFIGS
        scores = np.empty(len(program.codes), np.float32)
        done = 0
        while done < len(scores):
            codes = np.asarray(program.codes[done : done + most])
            states = plan.structure.find_states(codes)
            if len(codes) > 1 and self._estimate_bytes(plan, states) > self._budget:
                most = max(len(codes) // 2, 1)  # for all slices from here on
                continue
            end = done + len(codes)
            scores[done:end] = self._score_slice(program, plan, codes, states)
            done = end
        return scores

    def _prepare_plan(self, program: graphs_lib.ScaledProgram) -> _Plan:
        """Prepares a program for scoring."""
        first = np.zeros([1, 1], np.int64)
        packed = graphs_lib.pack([program], first, first[..., np.newaxis])
        matrices, affected, bases, pooled = self._prepare(packed)
        matrices = [pruning.SparseMatrix(*[c.numpy() for c in m]) for m in matrices]
        affected = [int(count) for count in affected]
        return _Plan(pruning.Structure.build(matrices, affected), bases, pooled)

    def _prepare_program(self, packed: dict[str, tf.Tensor]):
        """Computes fields of the model's `Prepared`: the input of `_prepare_plan`."""
        graph, _ = graphs_lib.unpack(packed, 0, 1)
        nodes = self._model.node_inputs(graph)
        ones = tf.ones([tf.shape(packed['op'])[0], 1])
        prepared = self._model.prepare(graph, nodes, '', ones)
        vary = prepared.affected[-1]
        return (
            [tuple(m) for m in prepared.matrices],
            prepared.affected,
            # Nodes are sorted by hops: those that vary come first.
            [base[:vary] for base in prepared.bases],
            prepared.pooled,
        )

    def _estimate_bytes(self, plan: _Plan, states: Sequence[pruning.States]) -> int:
        """Estimates the memory that scoring a slice takes."""
        cells, messages = plan.structure.count_cells(states)
        width = plan.pooled.shape[-1]
        pairs = sum(s.of_config.size for s in states)
        # Six float32 tensors [cells, width] at a time; else indices and values.
        return 4 * width * 6 * cells + 64 * messages + 24 * pairs

    def _score_slice(
        self,
        program: graphs_lib.ScaledProgram,
        plan: _Plan,
        codes: np.ndarray,
        states: Sequence[pruning.States],
    ) -> np.ndarray:
        """Scores configurations, int [c, k] codes, that have these states."""
        arrays = plan.structure.list_cells(codes, states)
        configs = program.vectors[arrays['codes']]
        layers, pool = tf.nest.map_structure(
            _cast_to_int32, (arrays['layers'], arrays['pool'])
        )
        size = np.float32(program.num_nodes)
        scores = self._score(plan.bases, plan.pooled, size, configs, layers, pool)
        return scores.numpy()

    def _score_cells(
        self,
        bases: list[tf.Tensor],
        pooled: tf.Tensor,
        size: tf.Tensor,
        configs: tf.Tensor,
        layers: list[dict[str, Any]],
        pool: dict[str, tf.Tensor],
    ) -> tf.Tensor:
        """Scores configurations by their cells: float32 [configurations]."""
        total, configurable = self._model.variable_sums(
            bases, configs, _Cells(layers, pool)
        )
        scores = self._model.read_out(total + pooled, configurable, size)
        return scores[:, 0]


def _cast_to_int32(array: Any) -> np.ndarray:
    """Casts integers to int32."""
    array = np.asarray(array)
    return array if array.dtype == np.float32 else array.astype(np.int32)
