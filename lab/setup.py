"""Packaging of the measuring laboratory; `pip install ./lab` in a clone."""

import setuptools

_OLD, _NEW = 'python_version < "3.12"', 'python_version >= "3.12"'

setuptools.setup(
    name='tpugraphs-lab',
    version='0.4.0',
    description='Measures kernels of programs on one machine, in the format of '
    'TpuGraphs.',
    python_requires='>=3.10,<3.14',
    package_dir={'': '.'},
    packages=setuptools.find_packages(include=['tpugraphs_lab', 'tpugraphs_lab.*']),
    package_data={'tpugraphs_lab': ['pretrained/**/*', 'pretrained/*', 'archives/*']},
    install_requires=[
        'tpugraphs',
        # TensorFlow 2.15 pins ml_dtypes, which jaxlib after 0.4.30 needs newer.  From
        # 3.12 on there is no upper bound: users have the jaxlib of their jax.
        # Times depend on the release (lab/docs/xla-releases.md).
        f'jaxlib==0.4.30; {_OLD}',
        f'jaxlib>=0.4.34; {_NEW}',
        # The pretrained run and the benchmarks grow trees.
        'lightgbm>=4',
    ],
    entry_points={
        'tpugraphs.commands': ['lab=tpugraphs_lab.commands'],
        'tpugraphs.columns': [
            'cpu.loop=tpugraphs_lab.columns.loop_columns',
            'cpu.release=tpugraphs_lab.columns.release_columns',
        ],
        'tpugraphs.runs': ['pretrained=tpugraphs_lab.pretrained_run:folder'],
    },
)
