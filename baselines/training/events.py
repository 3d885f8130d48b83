"""Curves and settings for TensorBoard: `tensorboard --logdir OUT_DIR/tensorboard`."""

import glob
import os
from typing import Any, Dict, Mapping, Optional

import tensorflow as tf

from baselines import files
from baselines.training import loop

_TAGS = {
    'train_loss': 'loss/train',
    'val_loss': 'loss/valid',
    'train_opa': 'opa/train',
    'val_opa': 'opa/valid',
    'val_tau': 'tau/valid',
    'train_seconds': 'seconds/train',
    'val_seconds': 'seconds/valid',
}


class Events:
    """The event file of a training.

    What an interrupted training wrote is replaced: its curves are in its state.

    Args:
        folder: where the file goes; `<out_dir>/tensorboard/<hash>`.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, folder: str):
        folder = files.expand(folder)
        os.makedirs(folder, exist_ok=True)
        for path in glob.glob(os.path.join(glob.escape(folder), 'events.out.*')):
            os.unlink(path)
        self._writer = tf.summary.create_file_writer(folder)
        self._done = 0

    def after_epoch(self, state: loop.State) -> None:
        """Writes the epochs of the curves that are new; steps are epochs from 1."""
        with self._writer.as_default():
            for epoch in range(self._done, state.epochs_done):
                for name, tag in _TAGS.items():
                    values = state.curve.get(name, [])
                    if epoch < len(values) and values[epoch] is not None:
                        tf.summary.scalar(tag, values[epoch], step=epoch + 1)
        self._done = state.epochs_done
        self._writer.flush()

    def finish(
        self,
        run_hash: str,
        settings: Mapping[str, Any],
        errors: Mapping[str, Optional[Dict[str, float]]],
    ) -> None:
        """Writes the settings, as hparams, and the final errors by split; closes."""
        # Half a second that only who asked for it should wait.
        from tensorboard.plugins.hparams import api

        with self._writer.as_default():
            api.hparams(dict(settings), trial_id=run_hash)
            for split, found in errors.items():
                for name, error in (found or {}).items():
                    tf.summary.scalar(f'final/{split}/{name}', error, step=self._done)
        self._writer.close()
