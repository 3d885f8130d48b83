"""What tests of trainings and predictions do with runs, of either collection."""

import contextlib
import csv
import gzip
import io
import json
import pathlib

import pytest
import tensorflow as tf

from baselines.runs import run_files
from baselines.training import checkpoints


def run_quietly(train, settings):
    """Trains in silence; returns the model directory and what was printed."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        model_dir = train(settings)
    return pathlib.Path(model_dir), printed.getvalue()


def save_weights(model, path):
    """Writes all that prediction reads; a whole SavedModel takes seconds."""
    tf.train.Checkpoint(variables=model.variables).write(f'{path}/variables/variables')


def read_info(model_dir):
    """Reads the run file of a model directory, an object of JSON."""
    with gzip.open(run_files.run_file(str(model_dir))) as stream:
        return json.loads(stream.read())


def read_curve(model_dir):
    """Reads the curves of a training but its seconds: equal in equal runs."""
    curve = read_info(model_dir)['train_curve']
    return {name: curve[name] for name in curve if not name.endswith('_seconds')}


def write_info(model_dir, info):
    """Replaces the run file's object, and its digest of the settings, if any."""
    if 'digest' in info:
        info = run_files.add_digests(info, info['digest']['weights'])
    path = run_files.run_file(str(model_dir))
    pathlib.Path(path).write_bytes(gzip.compress(json.dumps(info).encode()))


def read_ranking(path):
    """Reads a CSV of rankings: the order of configurations, as text, by ID."""
    with open(path, newline='', encoding='utf-8') as stream:
        return {row['ID']: row['TopConfigs'] for row in csv.DictReader(stream)}


def read_csv(model_dir):
    """Reads the CSV that the training of a run wrote."""
    return next(model_dir.parent.glob('results_*.csv')).read_text()


def read_weights(model_dir):
    """Reads the variables of a saved model: lists by name."""
    reader = tf.train.load_checkpoint(str(model_dir / 'variables' / 'variables'))
    return {
        name: reader.get_tensor(name).tolist()
        for name in reader.get_variable_to_shape_map()
        if name.endswith('VARIABLE_VALUE')
    }


class _Stop(Exception):
    """A stand-in for whatever ends a process."""


def stop_after(monkeypatch, epochs, train, error=_Stop, seen=_Stop):
    """Calls `train`, and stops it with an error when the state of an epoch was kept.

    Returns:
        What `train` raised, which is `seen`.
    """
    write = checkpoints.write_state_file

    def stop(path, arrays, described):
        write(path, arrays, described)
        if len(described['curve']['epoch']) == epochs:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, 'write_state_file', stop)
        with pytest.raises(seen) as caught:
            train()
    return caught.value
