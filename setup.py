"""Packaging of the TpuGraphs toolkit.  `pip install -e .` is all a user needs."""

import setuptools

# TF-GNN 1.0.3, the last release of its project, needs Keras 2.  TensorFlow
# carries it as `tf.keras` up to 2.15, the last for Python 3.10 and 3.11 here.  On
# newer Pythons it is the package tf_keras, which goes with the TensorFlow of the
# same minor version; baselines/__init__.py chooses it.
_OLD, _NEW = 'python_version < "3.12"', 'python_version >= "3.12"'
_PINNED = [
    'tensorflow-gnn==1.0.3',
    f'tensorflow==2.15.1; {_OLD}',
    f'numpy>=1.24,<2; {_OLD}',  # TensorFlow 2.15 was not compiled for NumPy 2
    f'protobuf<5; {_OLD}',  # its generated code
    f'tensorflow==2.21.*; {_NEW}',
    f'tf_keras==2.21.*; {_NEW}',
]

_LIBRARIES = [
    'absl-py',  # flags of the four top-level scripts
    'tqdm',  # progress bars
    'tomli; python_version < "3.11"',  # later ones have tomllib
    'scipy>=1.12',  # Kendall's tau, bootstrap intervals
    'matplotlib',  # plots of training curves and kernels
    'networkx',  # layers of a drawn graph; TF-GNN needs it anyway
    'jinja2',  # the page of a report: escapes what comes from run files
    'apache-beam',  # many .pb files at once; TF-GNN needs it anyway
]

# Losses by name, --losses=tfr.ApproxNDCGLoss; 2 MB with its dependencies other
# than TensorFlow.  It needs the Keras 2 inside TensorFlow.
_RANKING = [f'tensorflow-ranking==0.5.5; {_OLD}']
_SWEEP = ['optuna>=4.9']  # trials without a heartbeat are tried again

setuptools.setup(
    name='tpugraphs',
    version='0.4.0',
    description='Learned cost models for tensor compilers: train, rank, '
    'evaluate and submit on the TpuGraphs dataset.',
    long_description=open('README.md', encoding='utf-8').read(),
    long_description_content_type='text/markdown',
    python_requires='>=3.10,<3.14',
    # So an editable install is an entry of sys.path.  Otherwise it is a hook, before
    # which a clone called tpugraphs in the current folder is found.
    package_dir={'': '.'},
    packages=setuptools.find_packages(
        include=['baselines', 'baselines.*', 'tpugraphs', 'tpugraphs.*']
    ),
    py_modules=[
        'tiles_train',
        'layout_train',
        'tiles_gen_predictions_csv',
        'create_kaggle_csv',
    ],
    package_data={
        'baselines': ['**/*.json', '**/*.binpb', '**/*.pyi', '**/*.npz', '**/*.zip'],
        'tpugraphs': ['py.typed', '**/*.html', '**/*.toml'],
    },
    install_requires=_PINNED + _LIBRARIES + _RANKING,
    # pytest-xdist: the models' compilations take one core each.
    extras_require={
        'test': [
            *('pytest', 'pytest-xdist>=3.7', 'hypothesis', 'lightgbm>=4', *_SWEEP),
            'pandas',  # the course's script
        ],
        # Installed after ours, without its pins, pandas would bring NumPy 2.
        'notebook': ['jupyter', 'pandas'],
        'sweep': _SWEEP,
        # --model=Trees, and what --recipe=strong adds to a tile model.
        'trees': ['lightgbm>=4'],
        # The site: mkdocs build --strict.
        'docs': ['mkdocs<2', 'mkdocs-material>=9.5,<10', 'mkdocstrings-python>=1.10'],
        # One version of ruff: another formats otherwise.
        'dev': ['ruff==0.17.6', 'mypy', 'import-linter', 'pre-commit'],
    },
    entry_points={'console_scripts': ['tpugraphs=tpugraphs.commands.__main__:main']},
)
