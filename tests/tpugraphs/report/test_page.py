"""The HTML report: its content, and that nothing of a stranger's runs in it."""

import base64
import collections
import html.parser
import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from baselines.evaluation import report
from baselines.runs import run_files
from tpugraphs.report import figures
from tpugraphs.report import measured
from tpugraphs.report import page

pytest.importorskip('jinja2', reason='reports need jinja2, which setup.py asks for')

pytestmark = pytest.mark.slow

_EVIL = '"><script>alert(1)</script><img src=http://x/y onerror=alert(1)> $\\frac{1}$'


def _run(name, task, results, model=None, **info):
    args = {'model': 'MLP', 'lr': 0.01}
    if task == 'layout':
        args.update(source='xla', search='random')
    curve = {'train_loss': [4, 3, 2, 1.5], 'val_loss': [4, 3, 3, 3]}
    curve['val_opa'] = [0.5, 0.6, 0.9, 0.8]
    info = {'args': args, 'train_curve': curve, 'best_epoch': 2, **info}
    run = run_files.RunFile(
        '/home/me/out/model_abc', {'finished': '2026-01-02T03:04', **info}
    )
    collection = {'tile': 'tile:xla', 'layout': 'layout:xla:random'}[task]
    described = dict(collection=collection, split='valid', protocol='all')
    described['data'] = '/home/me/data/valid'
    summary = {**described, **report.summarise(task, results)}
    return measured.MeasuredRun(name, model or name, run, summary, results)


def _kernels(seed, programs=3, kernels=2):
    rng = np.random.default_rng(seed)
    results = []
    for program, kernel in itertools.product(range(programs), range(kernels)):
        runtimes = 1 + rng.random(20)
        scores = runtimes + rng.normal(size=20) * 0.2 * program
        name = f'net_{program}_{kernel}'
        results.append(report.GraphResult(name, scores, runtimes))
    return results


def _programs():
    rng = np.random.default_rng(0)
    which = np.concatenate([np.arange(30), np.arange(20)])
    true = 1 + rng.random(30)
    runtimes = true[which] * np.exp(rng.normal(size=50) * 0.1)
    return [
        report.GraphResult(f'unet_{i}', true[which], runtimes, which) for i in range(2)
    ]


class _Page(html.parser.HTMLParser):
    """Tags, attributes and texts of a page."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.alts, self.words = collections.Counter(), [], []
        self.pictures = []
        self.content = path.read_text(encoding='utf-8')
        self.feed(self.content)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags[tag] += 1
        assert not any(name.startswith('on') for name in attrs), attrs
        assert not {'href', 'action', 'formaction'} & set(attrs), attrs
        assert 'src' not in attrs or tag == 'img'
        if tag == 'img':
            start = 'data:image/svg+xml;base64,'
            assert attrs['src'].startswith(start)
            picture = base64.b64decode(attrs['src'][len(start) :]).decode()
            assert ElementTree.fromstring(picture).tag.endswith('svg')
            self.pictures.append(picture)
            self.alts.append(attrs['alt'])

    handle_startendtag = handle_starttag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return ' '.join(' '.join(self.words).split())


@pytest.fixture(name='tiles', scope='module')
def _tiles(tmp_path_factory):
    path = tmp_path_factory.mktemp('report') / 'tiles.html'
    hostile = {'args': {'model': _EVIL, 'lr': 0.1, _EVIL: _EVIL}, 'command': _EVIL}
    kernels = _kernels(1)
    runtimes = kernels[0].runtimes
    evil = report.GraphResult(f'{_EVIL}_1', -runtimes, runtimes)  # the worst
    runs = [
        _run('MLP lr=.01', 'tile', [*_kernels(0), evil], seconds=90),
        _run(f'MLP {_EVIL}', 'tile', [*kernels, evil], **hostile),
    ]
    page.write_page(str(path), runs)
    return path


@pytest.fixture(name='layouts', scope='module')
def _layouts(tmp_path_factory):
    path = tmp_path_factory.mktemp('report') / 'layouts.html'
    page.write_page(str(path), [_run('ResModel', 'layout', _programs())])
    return path


def test_a_page_holds_its_pictures_and_nothing_runs(tiles, layouts):
    for path, count in ((tiles, 2 + 2 + 1), (layouts, 2 + 1 + 1)):
        found = _Page(path)
        for tag in ('img', 'figure', 'figcaption'):
            assert found.tags[tag] == count
        assert len(found.alts) == count and min(map(len, found.alts)) > 60
        assert all('<script' not in picture for picture in found.pictures)
        for tag in ('script', 'link', 'svg', 'iframe', 'object', 'base'):
            assert not found.tags[tag]
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
        header = f'http-equiv="Content-Security-Policy" content="{policy}"'
        assert header in found.content and '@import' not in found.content
        # Addresses from the runs are text, and there are no others.
        for address in re.findall(r'.{9}https?://.{3}', found.content):
            assert address.endswith('src=http://x/y')
    assert 'http' not in _Page(layouts).content.replace('http-equiv', '')
    assert '<script>alert(1)</script>' in _Page(tiles).text  # as text


def test_it_says_what_a_report_says(tiles):
    found = _Page(tiles)
    scores, losses, errors, _, slowdown = found.alts
    assert 'MLP lr=.01: 4 epochs, best 0.900 at epoch 3' in scores
    assert 'ListMLELoss:1,MSE:0.02' in losses and '; MLP lr=.01: all 0.' in errors
    # Of both runs and of random choice: the more are tried, the less is lost.
    lines = slowdown.rstrip('.').split(': ')[1:]
    tried = [[float(x) for x in re.findall(r'(\d+\.\d)% at', s)] for s in lines]
    assert [len(values) for values in tried] == [3, 3, 3]
    assert all(values == sorted(values, reverse=True) for values in tried)
    assert '0.01' in found.text and '0.1' in found.text  # lr of both


def test_layouts_have_a_ceiling(layouts):
    noisy = report.summarise('layout', _programs())['overall']['noise']
    [alt] = [alt for alt in _Page(layouts).alts if 'perfect model' in alt]
    for key in ('tau_twice', 'tau_ceiling'):
        assert f' {noisy[key]:.2f}' in alt


def test_seeds_of_a_model_are_one_model(tmp_path):
    """Of runs that differ in seed alone: mean, deviation, one colour."""
    seeds = [_run(f'MLP seed {n}', 'tile', _kernels(n), model='MLP') for n in range(3)]
    path = tmp_path / 'seeds.html'
    poor = [graph._replace(scores=-graph.scores) for graph in _kernels(0)]
    page.write_page(str(path), [_run('A poor one', 'tile', poor), *seeds])
    found = _Page(path)
    assert '<title>4 runs of 2 models on tile:xla</title>' in found.content
    means = [run.summary['overall']['opa']['mean'] for run in seeds]
    shown = f'{np.mean(means):.3f} ± {np.std(means, ddof=1):.3f}'
    assert f'OPA {shown} ' in found.text and ' MLP A poor one at random' in found.text
    assert ' runs 3 1 ' in found.text
    errors = next(alt for alt in found.alts if alt.startswith('Dot plot of OPA'))
    assert f'MLP: all {shown}, ' in errors and 'at random: all 0.500, ' in errors


def test_no_folder_of_the_machine_is_named(tmp_path):
    args = {'losses': '/home/me/f.py:loss:1', 'init_from': '~/out/model_1'}
    run = _run(
        'MLP losses=/home/me/f.py:loss:1',
        'tile',
        _kernels(0),
        args={'model': 'MLP', 'lr': 1.0, **args},
        command="/home/me/train.py '--data_root=/home/me/my data/x' --lr=1/2",
    )
    path = tmp_path / 'report.html'
    page.write_page(str(path), [run])
    content = _Page(path)
    everything = content.content + ' '.join(content.pictures)
    assert '/home' not in everything and '~/' not in everything
    assert '.../f.py:loss:1' in content.text and '--lr=1/2' in content.text
    assert '.../model_1' in content.text and ' model_abc ' in content.text


def test_strange_curves_are_no_error(tmp_path):
    curve = {'val_opa': [None, None, 0.5, 0.25], 'val_loss': [None]}
    odd = _run('odd', 'tile', _kernels(0), train_curve=curve, best_epoch='last')
    none = _run('none', 'tile', _kernels(0), train_curve={})
    models = [measured.ReportedModel(run.model, [run]) for run in (odd, none)]
    [scores] = figures.draw_curves(models)
    assert 'odd: 4 epochs, best 0.500 at epoch 3.' in scores.alt
    page.write_page(str(tmp_path / 'none.html'), [none])
    assert _Page(tmp_path / 'none.html').tags['img'] == 3


def test_settings_that_trees_ignore_are_none_of_theirs(tmp_path):
    curve = {'epoch': [0, 1, 2], 'val_opa': [None] * 3}
    curve.update(train_loss=[2, 1, 0.5], val_loss=[2, 1.5, 1])
    args = {'model': 'Trees', 'lr': 0.001, 'batch': 10, 'losses': 'MSE', 'seed': 3}
    more = dict(args=args, train_curve=curve, digest={'trees': 'abc'}, best_epoch=1)
    trees = _run('Trees', 'tile', _kernels(0), **more)
    page.write_page(
        str(tmp_path / 'both.html'), [trees, _run('x', 'tile', _kernels(0))]
    )
    found = _Page(tmp_path / 'both.html').text
    assert ' model Trees MLP ' in found and ' seed 3 0 ' in found
    assert ' lr - 0.01 ' in found and ' losses - ListMLELoss' in found


def test_the_default_first_then_at_random():
    """Of runtimes 1, 2, 4 with the default 2: one lost at first, then 1 or 0."""
    graph = report.GraphResult('p_0', np.zeros(3), np.array([1.0, 2.0, 4.0]), default=1)
    found = figures._score_untrained([graph])
    for name, errors in {
        'at random': [4 / 3, 1 / 3, 0],
        'default first': [1, 1 / 2, 0],
    }.items():
        [shown] = figures._compute_errors(found[name], [1, 2, 3])
        np.testing.assert_allclose(shown, errors)
    assert list(figures._score_untrained([graph._replace(default=None)])) == [
        'at random'
    ]
