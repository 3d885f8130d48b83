"""One process, Beam's local runner and a Dask cluster that loses a worker: the same
files?

    python benchmarks/clusters.py --folder ~/scratch --dir ~/out/model_<hash>

Extracts generated .pb files, and ranks the train split of the shipped data with a
run, in one process, with the DirectRunner on all cores, and on two Dask workers on
this machine, of which one is killed in the middle.  All have to write the same bytes.
"""

import hashlib
import pathlib
import shutil
import threading
import time

import results

from baselines import config
from tests.helpers import dask_cluster
from tests.helpers import hlo_modules
from tpugraphs import commands
from tpugraphs.extract import extractor
from tpugraphs.extract import outcomes

_RUNS = 300


def make(folder: pathlib.Path, count: int) -> None:
    """Writes files of one kernel with 300 runs each."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        runs = [
            hlo_modules.tile_run(
                1000 + (number * 7 + run) % 911, output_bounds=[run, 8]
            )
            for run in range(1, _RUNS)
        ]
        first = hlo_modules.tile_run(1000, default=True, output_bounds=[1, 1])
        tuning = hlo_modules.tuning(
            hlo_modules.chain(f'fusion.{number}'), [first, *runs], number
        )
        (folder / f'{number:05d}.pb').write_bytes(hlo_modules.tile_file(tuning))


def digest(path: pathlib.Path) -> str:
    """Of a file, or of the names and bytes of all files in a folder."""
    found = hashlib.sha256()
    for one in sorted(path.iterdir()) if path.is_dir() else [path]:
        if path.is_dir():
            found.update(one.name.encode())
        found.update(one.read_bytes())
    return found.hexdigest()[:16]


def plainly(folder: pathlib.Path, output: pathlib.Path) -> None:
    """Extracts in this process, without Beam."""
    total = outcomes.Outcome()
    for path in sorted(folder.iterdir()):
        options = extractor.Options(str(output), 'tile')
        total.add(extractor.extract_file(str(path), options))
    print(outcomes.summary(total))


def dask_options(address: str):
    """Flags for the scheduler at an address."""
    return '--runner=DaskRunner', f'--beam_options=--dask_client_address={address}'


def killing(workers, count, after: int):
    """Kills the first worker once `count()` is `after`."""

    def watch() -> None:
        while count() < after:
            time.sleep(0.05)
        workers[0].kill()
        print(f'killed a worker after {count()}')

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Runs everything, and prints seconds and digests."""
    parser = results.parser(__doc__, record=True)
    parser.add_argument('--folder', required=True)
    parser.add_argument('--dir', required=True, help='a run of a tile model')
    parser.add_argument('--files', type=int, default=2000)
    parser.add_argument('--cache_dir', default=config.TileConfig.cache_dir)
    args = parser.parse_args()
    folder = pathlib.Path(args.folder).expanduser().absolute()
    shutil.rmtree(folder / 'work', ignore_errors=True)
    work = folder / 'work'
    make(work / 'raw', args.files)
    figures, digests = {}, {}

    def timed(name: str, output: pathlib.Path, call) -> None:
        began = time.monotonic()
        if call() not in (0, None):
            raise SystemExit(f'{name} failed')
        figures[f'{name}_s'] = time.monotonic() - began
        digests[name] = digest(output)
        print(f'{name}: {figures[f"{name}_s"]:.1f} s, {digests[name]}', flush=True)

    def command(name, *words):
        return lambda: commands.run(name, [str(word) for word in words])

    ranking = ['--dir', args.dir, '--sample_data', '--split=train']
    ranking.append(f'--cache_dir={args.cache_dir}')
    raw, plain = work / 'raw', work / 'plain'
    timed('extract_plain', plain, lambda: plainly(raw, plain))
    timed('extract_direct', work / 'direct', command('extract', raw, work / 'direct'))
    csv = {name: work / f'{name}.csv' for name in ('plain', 'direct', 'dask')}

    def predict(name, *words):
        return command('predict', *ranking, f'--output={csv[name]}', *words)

    timed('predict_plain', csv['plain'], predict('plain'))
    direct = predict('direct', '--runner=DirectRunner')
    timed('predict_direct', csv['direct'], direct)
    with dask_cluster.cluster(work) as (address, workers):
        options = dask_options(address)
        out = work / 'dask'
        killing(workers, lambda: len(list(out.glob('*.npz'))), args.files // 4)
        timed('extract_dask', out, command('extract', raw, out, *options))
    with dask_cluster.cluster(work) as (address, workers):
        options = dask_options(address)
        cache = pathlib.Path(args.cache_dir).expanduser()
        killing(workers, lambda: len(list(cache.glob('scores_*/*.npy'))), 3)
        timed('predict_dask', csv['dask'], predict('dask', *options))
    for job in ('extract', 'predict'):
        alike = {value for name, value in digests.items() if name.startswith(job)}
        figures[f'{job}_same_bytes'] = len(alike) == 1
    results.show(figures, args.record)


if __name__ == '__main__':
    results.run(main)
