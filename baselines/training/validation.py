"""What a training measures after each epoch."""

import dataclasses
import math
from typing import List, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from baselines.evaluation import metrics
from baselines.runs import tasks
from baselines.training import devices as devices_lib
from baselines.training import task_data


@dataclasses.dataclass(frozen=True)
class Validation:
    """Measurements of a model; a value is None where it could not be measured.

    Attributes:
        loss: the training loss on validation lists.
        opa: ordered-pair accuracy.
        tau: Kendall's tau; where it is given it chooses the best epoch, and
            otherwise OPA does.
    """

    loss: Optional[float]
    opa: Optional[float]
    tau: Optional[float] = None

    @property
    def score(self) -> Optional[float]:
        """What the best epoch has most of."""
        return self.opa if self.tau is None else self.tau

    def agreed(self, devices: devices_lib.Devices) -> 'Validation':
        """Returns what the chief has measured, in every process."""
        if not devices.is_distributed:
            return self
        values = [math.nan if x is None else x for x in dataclasses.astuple(self)]
        scores = devices.agree(values)
        return Validation(*(None if math.isnan(x) else x for x in scores))


NOTHING = Validation(None, None)


class Validator:
    """Measures a model on configurations that are drawn once for all epochs.

    OPA over few configurations per graph, newly drawn each epoch, moves by more than
    an epoch's progress.  Here it is over up to --validation_configs of each, the same
    ones every time.

    Args:
        data: what to validate on.
        loss: (labels, scores) -> scalar.
        scorer: scores with the model.
    """

    def __init__(
        self,
        data: task_data.TaskData,
        loss: tf.keras.losses.Loss,
        scorer: tasks.ModelScorer,
    ):
        self._data = data
        self._loss = loss
        store, chosen = data.stores['valid'], data.validated
        self._labels = [
            data.task.labels(store, graph)[configs]
            for graph, configs in enumerate(chosen)
        ]
        self._score = scorer.chosen(data.graphs['valid'], chosen)

    def measure(self) -> Validation:
        """Measures the model as it is."""
        if not self._labels:
            return NOTHING
        pairs = list(zip(self._score(), self._labels))
        correct, total = np.sum([metrics.ordered_pairs(*p) for p in pairs], axis=0)
        tau = None
        if self._data.task.judged_by_tau:
            taus = np.nan_to_num([metrics.kendall_tau(*pair) for pair in pairs])
            tau = float(np.mean(taus))
        return Validation(
            self._loss_of(pairs), float(correct / total) if total else None, tau
        )

    def _loss_of(
        self, pairs: Sequence[Tuple[np.ndarray, np.ndarray]]
    ) -> Optional[float]:
        """Returns the training loss of lists as long as those of a step."""
        configs = self._data.settings.configs
        lists: List[Tuple[np.ndarray, np.ndarray]] = [
            (labels[:configs] / self._data.label_scale, scores[:configs])
            for scores, labels in pairs
            if len(scores) >= configs
        ]
        if not lists:
            return None
        labels, scores = (np.stack(part) for part in zip(*lists))
        return float(self._loss(labels.astype(np.float32), scores))
