"""Messages about flags, said to who calls Python."""

import pytest

from tpugraphs import messages


@pytest.mark.parametrize(
    'said, wanted',
    [
        ('--lr should be more than 0, not -1.0', 'lr should be more than 0, not -1.0'),
        ('--dir: there is no directory /x', 'which: there is no directory /x'),
        ("--losses: 'MSE' stands twice", "loss: 'MSE' stands twice"),
        ('nothing has --configs=10', 'nothing has configs=10'),
        ('or pass --skip_bad_files', 'or pass skip_bad_files=True'),
        ('--resume: the run is finished', 'resume: the run is finished'),
        ('Point --data_root at it', 'Point data at it'),
        ('or try --sample_data', "or try data='sample'"),
        (
            'train one: python tiles_train.py --sample_data; or give --out_dir',
            'train one: python tiles_train.py --sample_data; or give out_dir',
        ),
        ('`tpugraphs rank --json` serves it', '`tpugraphs rank --json` serves it'),
        ('ten --- dashes and a--b', 'ten --- dashes and a--b'),
    ],
)
def test_flags_become_arguments(said, wanted):
    assert messages.translated(said) == wanted


def test_only_the_message_of_a_value_error_changes():
    @messages.in_python
    def fails(error):
        """Raises."""
        raise error

    class Special(ValueError):
        pass

    with pytest.raises(Special, match='^seed should be'):
        fails(Special('--seed should be'))
    with pytest.raises(OSError, match='^--seed'):
        fails(OSError('--seed'))
    assert fails.__doc__ == 'Raises.'
