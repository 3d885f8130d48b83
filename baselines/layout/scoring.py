"""Model x program -> the scores of its configurations, in bounded memory."""

from collections.abc import Callable, Iterator, Sequence
import dataclasses
import functools

import numpy as np
import tensorflow as tf

from baselines.layout import graphs as graphs_lib
from baselines.layout import pruned
from baselines.tiles import graphs as tile_graphs
from baselines.tiles import scoring as tile_scoring

DEFAULT_MEMORY = 1 << 30

# Estimated memory of an unknown model for a node in a configuration: some tensors of a
# few hundred floats together.
_BYTES_PER_PAIR = 4096

# Longer slices are no faster.
_MOST_CONFIGS = 64

_FIRST = np.zeros([1, 1], np.int64)  # the only program that is packed


class LayoutScorer:
    """Scores all configurations of programs with one model.

    A model that shows its parts as `ResModel` does is evaluated once for each
    distinct state of a node (`pruned`); of any other, `forward` is called
    (`ForwardScorer`).

    Args:
        model: has `forward(graph, num_configs)`.
        memory_budget: bytes that a slice of configurations may take, in addition
            to the program itself and TensorFlow.
    """

    def __init__(self, model: tf.keras.Model, memory_budget: int = DEFAULT_MEMORY):
        in_lists = getattr(model, 'scores_depend_on_list', False)
        # Parts are scored in slices of any length, which would change list-wise scores.
        by_parts = shows_parts(model) and not in_lists
        kind = pruned.PrunedScorer if by_parts else ForwardScorer
        self._score = kind(model, memory_budget).score

    def scores(
        self,
        graphs: Sequence[graphs_lib.ScaledProgram],
        numbers: np.ndarray | None = None,
    ) -> Iterator[np.ndarray]:
        """Yields the scores of programs; see `tasks.protocol.Scorer`."""
        if numbers is None:
            numbers = np.arange(len(graphs))
        return (self.score(graphs[number]) for number in numbers)

    def chosen(
        self, graphs: Sequence[graphs_lib.ScaledProgram], configs: Sequence[np.ndarray]
    ) -> Callable[[], Iterator[np.ndarray]]:
        """Returns a function that scores given configurations; see `Scorer`."""
        programs = [_cut_configs(graphs[n], chosen) for n, chosen in enumerate(configs)]
        return lambda: self.scores(programs)

    def score(self, program: graphs_lib.ScaledProgram) -> np.ndarray:
        """Scores the configurations of a program.

        Returns:
            float32 [c]; equal configurations have equal scores.

        Raises:
            ValueError: a score is not finite.
        """
        if len(np.unique(program.group)) < len(program.codes):
            # A split with a part of the configurations: the others are not computed.
            program = _cut_configs(program, np.arange(program.num_configs))
        scores = self._score(program)
        if program.prior is not None:
            scores = scores + program.prior
        scores = tile_scoring.check_finite(scores, program.graph_id, 'program')
        return scores[program.group]  # [u] -> [c]


def _cut_configs(
    program: graphs_lib.ScaledProgram, configs: np.ndarray
) -> graphs_lib.ScaledProgram:
    """Returns a program with only some of its configurations, int [s]."""
    # The rows of `codes` that are left, and the row of each configuration among them.
    groups, group = np.unique(program.group[configs], return_inverse=True)
    return dataclasses.replace(
        program,
        codes=program.codes[groups],
        group=group,
        runtimes=program.runtimes[configs],
        prior=None if program.prior is None else program.prior[groups],
    )


def shows_parts(model: tf.keras.Model) -> bool:
    """Returns whether `PrunedScorer` can score with a model.

    It has the methods that are called, and no subclass replaces `forward` without
    replacing these, too.
    """

    def owner(name: str):
        classes = [c for c in type(model).__mro__ if name in vars(c)]
        return classes[0] if classes else None

    parts = ['node_inputs', 'prepare', 'variable_sums', 'read_out', 'num_gnns']
    owners = [owner(name) for name in parts]
    # A subclass that replaces `forward` alone would be scored without its change.
    return None not in owners and all(
        issubclass(part, owner('forward')) for part in owners
    )


class ForwardScorer:
    """Scores with `forward` of any model, a part of the configurations at a time.

    A model that compares the configurations of a list gets lists that are cut at
    random, several ways, and the scores are averaged; how long a list is shapes
    scores, so it does not depend on memory.  Any other model gets slices.

    Args:
        model: has `forward(graph, num_configs)`; where it compares configurations, also
            for a tensor num_configs.
        memory_budget: bytes that computing a slice may take.
    """

    def __init__(self, model: tf.keras.Model, memory_budget: int = DEFAULT_MEMORY):
        self._model = model
        self._in_lists = getattr(model, 'scores_depend_on_list', False)
        self._budget = memory_budget
        self._compiled: dict[int | None, Callable] = {}

    def score(self, program: graphs_lib.ScaledProgram) -> np.ndarray:
        """Scores the distinct configurations: float32 [u]."""
        # int [u]: the first configuration of each group of equal ones.
        distinct = np.unique(program.group, return_index=True)[1]
        size = None if self._in_lists else self._choose_slice_size(program)
        if size is None:
            cuts = tile_scoring.cut_into_lists(len(distinct))
        else:
            ends = range(size, len(distinct), size)
            cuts = np.split(np.arange(len(distinct)), ends)
        # Compiled once for each slice size; None takes lists of any length.
        if size not in self._compiled:
            score = functools.partial(self._score_packed, configs=size)
            self._compiled[size] = tile_graphs.trace_once(score)

        def score_cut(cut: np.ndarray) -> np.ndarray:
            """Scores distinct configurations, by their numbers, in one slice."""
            # The last slice is filled up with its last configuration.
            rows = np.pad(cut, (0, (size or len(cut)) - len(cut)), 'edge')
            configs = distinct[rows][np.newaxis, np.newaxis]  # [1, 1, rows]
            packed = graphs_lib.pack([program], _FIRST, configs)
            scores = self._compiled[size](packed, np.int32(len(rows)))
            return scores.numpy()[: len(cut)]

        return tile_scoring.average_lists(len(distinct), cuts, map(score_cut, cuts))

    def _choose_slice_size(self, program: graphs_lib.ScaledProgram) -> int:
        """Returns how many configurations fit: a power of two, so few are compiled."""
        fit = self._budget // (_BYTES_PER_PAIR * program.num_nodes)
        return 1 << (min(max(fit, 1), _MOST_CONFIGS).bit_length() - 1)

    def _score_packed(
        self, packed: dict[str, tf.Tensor], count: tf.Tensor, configs: int | None
    ) -> tf.Tensor:
        """Scores `count` packed configurations; `configs` is their static number."""
        graph, _ = graphs_lib.unpack(packed, 0, 1, configs)
        return self._model.forward(graph, configs or count)[0]
