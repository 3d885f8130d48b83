"""What trainings of both collections make of bad input: one line, and nothing
half-written.  A module has the fixtures `train` and `data` for its collection."""

import os

import pytest

from tests.helpers import damages


@pytest.fixture
def refused(train, tmp_path, capsys):
    """Trains; checks for one line with all the words, and for no output."""

    def call(*words, **changes):
        damages.assert_refused(train(**changes), capsys.readouterr(), *words)
        assert damages.outputs(tmp_path) == []

    return call


class Suite:
    """The tests; a subclass says what its collection is like.

    Attributes:
        bad: a file that every split has.
        kept: what training says of the other files.
        ranked: number of the other test files.
        overflow: a learning rate at which losses are not finite.
    """

    bad: str
    kept: str
    ranked: int
    overflow: float

    def test_damaged_files_are_named_and_left_out_where_that_is_wanted(
        self, train, data, tmp_path, capsys
    ):
        for split in ('train', 'test'):
            os.truncate(data / split / self.bad, 100)
        assert train(skip_bad_files=True) == 0
        printed = capsys.readouterr()
        assert [line.partition(': not ')[0] for line in printed.err.splitlines()] == [
            f'warning: left out: {data}/{split}/{self.bad}'
            for split in ('train', 'test')
        ]
        assert self.kept in printed.out
        ranking = next((tmp_path / 'out').glob('results_*.csv')).read_text()
        assert ranking.count('\n') == 1 + self.ranked
        assert self.bad[: -len('.npz')] not in ranking

    @pytest.mark.parametrize('split', ['train', 'valid', 'test'])
    def test_missing_and_empty_splits(self, refused, data, split):
        for path in (data / split).iterdir():
            path.unlink()
        refused(f'{data}/{split}: there is no .npz file', '--data_root')
        (data / split).rmdir()
        what_to_do = ('--data_root', 'tpugraphs download --collection', '--sample_data')
        refused(f'{data}/{split}: there is no such folder', *what_to_do)

    def test_a_loss_that_overflows(self, refused, data):
        assert data.exists()
        refused('the loss is not finite: lower --lr', lr=self.overflow, batch=1)

    @pytest.mark.parametrize(
        'flag, below',
        [
            ('out_dir', 'file/out'),
            ('results_csv', 'file/x.csv'),
            ('results_csv', 'folder'),
            ('cache_dir', 'file/cache'),
        ],
    )
    def test_a_place_that_cannot_be_written(self, refused, data, flag, below):
        (data / 'file').write_text('text')
        (data / 'folder').mkdir()
        place = str(data / below.partition('/')[0])
        refused(f'--{flag}', place, **{flag: str(data / below)})
        assert (data / 'file').read_text() == 'text'
