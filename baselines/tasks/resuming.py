"""The state of a training after each epoch, to go on from."""

import dataclasses
import os
from typing import Any, Mapping

from baselines import config as config_lib
from baselines.data.packed import splits
from baselines.training import loop
from baselines.training import runs


class Unfinished:
    """The unfinished run of some settings and data, in a file of its own.

    Args:
        config: the settings.
        stores: the splits, by name.
        trainer: what is kept, or given back its state.
    """

    def __init__(
        self,
        config: Any,
        stores: Mapping[str, splits.PackedSplit],
        trainer: loop.Trainer,
    ):
        key = config_lib.training_key(
            config, stores['train'].fingerprint, stores['valid'].fingerprint
        )
        path = os.path.join(config.out_dir, f'unfinished_{key}.npz')
        self._checkpoint = runs.Checkpoint(path)
        self._config = config
        self._trainer = trainer
        self.remove = self._checkpoint.remove

    def keep(self, state: loop.State) -> None:
        """Writes everything that it takes to go on after this epoch."""
        arrays = {f'now_{i:04d}': w for i, w in enumerate(self._trainer.state())}
        arrays.update({f'best_{i:04d}': w for i, w in enumerate(state.best_weights)})
        described = dataclasses.asdict(dataclasses.replace(state, best_weights=[]))
        self._checkpoint.write(arrays, described)

    def state(self) -> loop.State:
        """The state to go on from: that of an interrupted run, or a new one.

        Raises:
            ValueError: the file is damaged, or of other code.
        """
        path = self._checkpoint.path
        if not self._config.resume:
            if os.path.exists(path):
                print(
                    'note: a run of these settings was interrupted; --resume would '
                    'go on with it.  Starting anew'
                )
            return loop.State()
        kept = self._checkpoint.read()
        if kept is None:
            print(
                'note: --resume: there is no interrupted run of these settings '
                f'in {self._config.out_dir}; starting anew'
            )
            return loop.State()
        arrays, described = kept
        now, best = (
            [arrays[key] for key in sorted(arrays) if key.startswith(part)]
            for part in ('now_', 'best_')
        )
        try:
            self._trainer.restore(now)
            state = loop.State(**{**described, 'best_weights': best})
        except (TypeError, ValueError) as error:
            raise ValueError(
                f'{path} does not fit this code ({error}); delete it to start anew'
            ) from None
        print(f'resuming after epoch {state.epochs_done}')
        return state
