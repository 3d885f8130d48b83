"""One training on several devices or processes, with tf.distribute: --strategy.

Every replica has a copy of the model and takes its share of each batch; gradients are
added up before they are clipped, so a step equals that of one device but for rounding.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import os
import signal
import threading

import numpy as np
import tensorflow as tf

from baselines.core import starting
from baselines.core import text
from baselines.core import untrusted


def describe_machine() -> str:
    """Describes TensorFlow's devices: '1 GPU: NVIDIA A100' or 'CPU, 2 cores'."""
    gpus = tf.config.list_physical_devices('GPU')
    if not gpus:
        return starting.describe_cpu()
    details = map(tf.config.experimental.get_device_details, gpus)
    names = dict.fromkeys(gpu.get('device_name', 'of unknown name') for gpu in details)
    return f'{text.count(len(gpus), "GPU")}: {", ".join(names)}'


class Devices:
    """The replicas of a training, and this process's share of them.

    Args:
        strategy: a strategy of tf.distribute; None for one replica.
        rank: number of this process in the training.

    Attributes:
        replicas: their number, in all processes.
        local: their number in this process.
        is_chief: True where this process validates and writes files.
    """

    def __init__(self, strategy: tf.distribute.Strategy | None = None, rank: int = 0):
        self.strategy = strategy or tf.distribute.get_strategy()
        self.replicas = self.strategy.num_replicas_in_sync
        self.is_distributed = strategy is not None
        self.local = len(strategy.extended.worker_devices) if strategy else 1
        self._first = rank * self.local  # number of this process's first replica
        self.is_chief = rank == 0
        self._broadcast = tf.function(self._sum_chief_values)

    def divide_batch(self, size: int) -> int:
        """Returns how many graphs of a batch each replica takes; raises ValueError."""
        if size % self.replicas:
            raise ValueError(
                f'--batch must be divisible by the {self.replicas} replicas, not {size}'
            )
        return size // self.replicas

    def take_share(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Returns the shares of this process's replicas in the arrays of steps.

        Args:
            *arrays: [steps, batch, ...].

        Returns:
            [steps * local replicas, share of a batch, ...] of each; rows of a step are
            adjacent.
        """
        mine = slice(self._first, self._first + self.local)
        shares = []
        for array in arrays:
            steps, batch, *rest = np.shape(array)
            share = self.divide_batch(batch)
            cut = np.reshape(array, [steps, self.replicas, share, *rest])
            shares.append(cut[:, mine].reshape(-1, share, *rest))
        return shares

    def find_row(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the current replica's row of a step in the arrays of `take_share`."""
        # A step has a row for each replica of this process, numbered from `_first`.
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return step * self.local + tf.cast(replica, tf.int32) - self._first

    def broadcast_values(self, values: Sequence[float]) -> list[float]:
        """Returns the chief's values in every process; waits for all of them."""
        if not self.is_distributed:
            return list(values)
        return list(self._broadcast(tf.constant(values, tf.float64)).numpy())

    def _sum_chief_values(self, values: tf.Tensor) -> tf.Tensor:
        """Returns the first replica's values: a sum in which all others are 0."""

        def chosen(values: tf.Tensor) -> tf.Tensor:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            return tf.where(tf.equal(replica, 0), values, tf.zeros_like(values))

        # tf.distribute has no broadcast; the sum over replicas is one.
        of_replicas = self.strategy.run(chosen, args=(values,))
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, of_replicas, axis=None)

    @contextlib.contextmanager
    def wait_for_workers(self) -> Iterator[None]:
        """Waits at the end of the block for the processes of the training.

        Turns TensorFlow's error for a lost worker into a ValueError of one line.
        """
        errors = tf.errors
        lost = errors.UnavailableError, errors.AbortedError, errors.CancelledError
        try:
            yield
            # A worker that has ended would stop the chief.
            self.broadcast_values([0.0])
        except lost as error:
            raise ValueError(
                '--strategy=workers: a worker has ended; start all again with --resume'
            ) from error


def update_variables(
    change: Callable[..., tf.Operation],
    variables: Sequence[tf.Variable],
    *arguments: Sequence[tf.Tensor],
) -> None:
    """Changes every replica's copy of variables, from inside a replica.

    Args:
        change: assigns a variable: (variable, *arguments) -> the operation.
        *arguments: sequences of one value per variable.
    """

    def merged(
        strategy: tf.distribute.Strategy, *arguments: Sequence[tf.Tensor]
    ) -> None:
        # Runs once for all replicas, whose values it gets; `update` assigns each copy.
        for variable, *values in zip(variables, *arguments):
            strategy.extended.update(variable, change, args=tuple(values))

    context = tf.distribute.get_replica_context()
    context.merge_call(merged, args=tuple(map(list, arguments)))


def open_devices(name: str) -> Devices:
    """Returns the devices of --strategy; call it before any other use of TensorFlow."""
    if name == 'mirrored':
        devices = tf.config.list_logical_devices('GPU')
        devices = devices or tf.config.list_logical_devices('CPU')
        return Devices(tf.distribute.MirroredStrategy([d.name for d in devices]))
    if name == 'workers':
        rank = parse_cluster(os.environ.get('TF_CONFIG', ''))
        print('waiting for all workers of TF_CONFIG', flush=True)
        try:
            with end_on_interrupt():
                return Devices(tf.distribute.MultiWorkerMirroredStrategy(), rank)
        except tf.errors.OpError as error:  # its port is in use, say
            raise ValueError(
                f'TF_CONFIG: worker {rank} cannot start: {error.message}; is '
                'its port in use?'
            ) from None
    return Devices()


@contextlib.contextmanager
def end_on_interrupt() -> Iterator[None]:
    """Lets Ctrl-C end the process at once, even while C++ code is waiting."""
    # No other thread may set a handler.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Python's handler would run only after the C++ call has returned.
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def parse_cluster(variable: str) -> int:
    """Checks TF_CONFIG, which TensorFlow reads; returns the number of this worker.

    Raises:
        ValueError: it is malformed, or a cluster of other tasks than workers.
    """
    example = (
        '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
        '"task": {"type": "worker", "index": 0}}'
    )
    try:
        content: text.JsonObject = untrusted.loads(variable)
        addresses = content['cluster']['worker']
        kind, rank = content['task']['type'], int(content['task']['index'])
        ports = [int(address.rpartition(':')[2]) for address in addresses]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(
            f'--strategy=workers needs TF_CONFIG, such as {example}, not {variable!r}'
        ) from None
    # Parameter servers and evaluators, which TensorFlow also knows, have no role here.
    if list(content['cluster']) != ['worker'] or kind != 'worker':
        raise ValueError('TF_CONFIG: all tasks of the cluster must be of type worker')
    if len(set(addresses)) < len(addresses) or not all(0 < p < 1 << 16 for p in ports):
        raise ValueError(f'TF_CONFIG: workers need an address each, not {addresses}')
    if not 0 <= rank < len(addresses):
        raise ValueError(
            f'TF_CONFIG: index must be 0 to {len(addresses) - 1}, not {rank}'
        )
    return rank
