"""Draws configurations of layout graphs without replacement.

    sampler = ConfigSampler(store, 'skewed')
    configs = sampler.draw_configs(np.random.default_rng(0), graphs=[3, 8], k=16)
    configs[0]    # int64 [16], numbers of configurations of graph 3

The first of a group of equal configurations represents the group.

Strategies, for n candidates ordered by runtime:

  skewed   fast ones more often, as published: the k largest of
           (n - rank) / n + Gumbel noise, rank 0 being the fastest.  The
           fastest is e times as likely to come first as the slowest.
  uniform  all equally likely.
"""

from collections.abc import Sequence
import dataclasses

import numpy as np

from baselines.data.layout import store as layout_store


@dataclasses.dataclass(eq=False, repr=False)
class ConfigSampler:
    """Draws configurations from the graphs of a split; stateless between draws.

    Attributes:
        strategy: 'skewed' or 'uniform'.
        max_configs: the most candidates per graph; -1 for all.  If there are more, a
            fixed uniform subset is used, which is representative.  (The published
            trainer keeps the best and the worst third, and repeats configurations from
            the middle, which shifts the distribution of runtimes that the model sees.)
        seed: chooses that subset.
    """

    store: layout_store.LayoutStore
    strategy: str = 'skewed'
    max_configs: int = -1
    seed: int = 0
    _candidates: dict[int, np.ndarray] = dataclasses.field(
        default_factory=dict, init=False
    )

    def candidates(self, graph: int) -> np.ndarray:
        """Returns int64 [n], the groups drawn from, fastest first.

        Of equally fast ones the earlier comes first.
        """
        graph, most = int(graph), self.max_configs
        if graph not in self._candidates:
            order = np.argsort(self.store.part('group_runtime', graph), kind='stable')
            if 0 < most < len(order):
                # Of its own, so that it does not depend on who asks first.
                rng = np.random.default_rng([self.seed, graph])
                kept = rng.choice(len(order), most, replace=False, shuffle=False)
                order = order[np.sort(kept)]  # still fastest first
            self._candidates[graph] = order
        return self._candidates[graph]

    def draw_configs(
        self, rng: np.random.Generator, graphs: Sequence[int], k: int
    ) -> np.ndarray:
        """Draws `k` distinct candidates of each graph: int64 [graphs, k].

        Args:
            rng: the source of randomness; the same state draws the same.
            graphs: indices of graphs; one that is there twice is drawn twice.
            k: number of candidates to draw, from 1 to the fewest that a graph has.

        Raises:
            ValueError: a graph has no runtimes, and sampling is not uniform.
        """
        configs = np.empty((len(graphs), k), np.int64)
        for row, graph in enumerate(graphs):
            among = self.candidates(graph)
            runtimes = self.store.part('group_runtime', graph)
            if not runtimes[0] and self.strategy != 'uniform':  # 0: not published
                raise ValueError(
                    f'{self.store.graph_ids[graph]}: {self.strategy} sampling needs '
                    'runtimes, and its are not published; draw uniformly'
                )
            # int64 [k], different places in the ranking of the candidates.
            if self.strategy == 'uniform':
                places = rng.choice(len(among), k, replace=False)
            else:  # the same distribution, by the faster way
                draw = _draw_few_skewed if 4 * k <= len(among) else _draw_many_skewed
                places = draw(rng, len(among), k)
            configs[row] = self.store.part('group_first', graph)[among[places]]
        return configs


def _draw_many_skewed(rng: np.random.Generator, count: int, k: int) -> np.ndarray:
    """Draws by Gumbel top-k.

    The largest of logit + Gumbel noise are the smallest of exp(-logit) times
    exponential noise, which is faster to draw.
    """
    # exp(-logit) = exp(rank / n - 1); the factor exp(-1) changes no order.
    race = rng.standard_exponential(count) * np.exp(np.arange(count) / count)
    winners = np.argpartition(race, k - 1)[:k]
    return winners[np.argsort(race[winners])]


def _draw_few_skewed(rng: np.random.Generator, count: int, k: int) -> np.ndarray:
    """Draws from the same distribution, in time that depends on `k` alone.

    Gumbel top-k draws one at a time with weights exp(logit), without replacement.  The
    sum of exp(-rank / n) up to a rank has an inverse in closed form.
    """
    drawn = np.zeros(0, np.int64)
    while len(drawn) < k:
        # The weights below rank r add up to 1 - exp(-r / n), times a constant.
        share = rng.random(2 * k) * (1 - np.exp(-1))
        # The rank up to which the weights have this share of their sum.
        more = (-count * np.log1p(-share)).astype(np.int64)
        # Rounding may give `count`.
        drawn = np.append(drawn, np.minimum(more, count - 1))
        _, first = np.unique(drawn, return_index=True)
        drawn = drawn[np.sort(first)]  # without repetitions, as they were drawn
    return drawn[:k]
