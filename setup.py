"""Packaging of the TpuGraphs toolkit.  `pip install -e .` is all a user needs."""

import setuptools

# The four pins below are one combination.  TF-GNN 1.0.3 and TF-Ranking 0.5.5
# are the last releases of their projects and need Keras 2, which TensorFlow
# carries as `tf.keras` up to 2.15.  Left to itself pip takes TensorFlow 2.14
# with NumPy 2, for which it was not compiled, and the import fails.
_PINNED = [
    'tensorflow==2.15.1',
    'tensorflow-gnn==1.0.3',
    'tensorflow-ranking==0.5.5',
    'numpy>=1.24,<2',
    'protobuf<5',  # TensorFlow 2.15's generated code; HLO protos come from it
]

_LIBRARIES = [
    'absl-py',  # flags of the four top-level scripts
    'tqdm',  # progress bars
    'scipy',  # Kendall's tau, bootstrap intervals
    'matplotlib',  # plots of training curves and kernels
    'apache-beam',  # many .pb files at once; TF-GNN needs it anyway
]

setuptools.setup(
    name='tpugraphs',
    version='0.1.0',
    description='Learned cost models for tensor compilers: train, rank, '
    'evaluate and submit on the TpuGraphs dataset.',
    long_description=open('README.md', encoding='utf-8').read(),
    long_description_content_type='text/markdown',
    python_requires='>=3.9,<3.12',
    packages=setuptools.find_packages(include=['baselines', 'baselines.*']),
    py_modules=[
        'tiles_train',
        'layout_train',
        'tiles_gen_predictions_csv',
        'create_kaggle_csv',
    ],
    package_data={'baselines': ['**/*.json', '**/*.proto']},
    install_requires=_PINNED + _LIBRARIES,
    # pytest-xdist: the models' compilations take one core each.
    extras_require={'test': ['pytest', 'pytest-xdist', 'hypothesis']},
    entry_points={'console_scripts': ['tpugraphs=baselines.commands.__main__:main']},
)
