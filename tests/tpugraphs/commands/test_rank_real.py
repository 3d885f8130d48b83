"""From raw kernels to a ranking: extract, train, evaluate and rank agree."""

import json
import shutil

import numpy as np
import pytest

from baselines import config
from baselines.evaluation import metrics
from baselines.runs import loading
from baselines.runs import prediction
from baselines.runs import saved
from baselines.training import jobs
from tests.helpers import hlo_modules
from tpugraphs import commands

_SHARED = hlo_modules.SHARED


@pytest.mark.slow
@pytest.mark.skipif(not _SHARED.is_dir(), reason=hlo_modules.NO_SHARED)
def test_extract_train_evaluate_and_rank_real_kernels(tmp_path, capsys, weights_alone):
    source = _SHARED / 'op_tuning_data.pb'
    extracted = tmp_path / 'all'
    assert commands.run('extract', [str(source), str(extracted), '--pad=-1']) == 0
    # Kernels in turn, large ones first, so that each split has some of each.
    paths = sorted(extracted.iterdir(), key=lambda p: (-p.stat().st_size, p))
    data_root = tmp_path / 'data'
    for number, path in enumerate(paths):
        split = ('train', 'valid', 'train', 'test', 'train')[number % 5]
        (data_root / split).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, data_root / split)
    model_dir = jobs.train(
        config.TileConfig(
            data_root=str(data_root),
            cache_dir=str(tmp_path / 'cache'),
            out_dir=str(tmp_path / 'out'),
            epochs=1,
            batch=2,
            configs=5,
            model_kwargs_json='{"hidden_dim": 8, "op_embed_dim": 4}',
            test_mode='metrics',
        )
    )
    info = saved.Run.load(model_dir).info
    assert info['pad'] == -1 and info['feature_names'] is None
    assert (info['node_features'], info['config_features']) == (140, 24)

    output = tmp_path / 'ranked.json'
    capsys.readouterr()
    assert (
        commands.run('rank', [str(source), '--dir', model_dir, '--output', str(output)])
        == 0
    )
    assert '15 modules with 752 configurations ranked' in (capsys.readouterr().out)
    ranked = {
        module['module']: module['configurations']
        for module in json.loads(output.read_text())['modules']
    }
    data = prediction.DataOptions(str(data_root), str(tmp_path / 'cache'))
    predictor = loading.load_predictor(model_dir, data)
    checked = 0
    for split in ('train', 'valid', 'test'):
        store = predictor.open_split(split)
        named = zip(store.graph_ids, predictor.score(store))
        for kernel, (name, scores) in enumerate(named):
            order = metrics.best_first(scores)
            configs = ranked.pop(name)
            # Errors are left out of the npz, so rows are fewer than runs.
            rows = np.argsort(np.argsort([c['run_index'] for c in configs]))
            assert rows.tolist() == order.tolist()
            np.testing.assert_allclose(
                [c['score'] for c in configs],
                scores[order],
                rtol=0,
                atol=1e-5 * np.abs(scores).max(),
            )
            begin = store.config_offsets[kernel]
            assert [c['runtime_ns'] for c in configs] == (
                store.config_runtime[begin + order].tolist()
            )
            checked += len(order)
    assert checked == 752 and not ranked

    summaries = [
        loading.load_predictor(model_dir, data).measure(split)[0]
        for split in ('train', 'valid', 'test')
    ]
    found = json.loads(output.read_text())['summary']
    for k in (1, 5, 10):
        mean = np.average(
            [s['overall'][f'top_{k}_error']['mean'] for s in summaries],
            weights=[s['overall']['graphs'] for s in summaries],
        )
        assert found['slowdown'][str(k)] == pytest.approx(1 + mean)
