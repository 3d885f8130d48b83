"""Layout models beside the published one, on arrays as they lie in memory.

Every public `tf.keras.Model` in a file of this package is a `--model`, unless it
says `is_base = True`: a new model is a new file.  A class of the same name in
`baselines/layout/models.py` takes its place.

    padded          `PaddedSAGE`: amounts of work times learned corrections
    tgraph          `TGraph`: all that layouts do is learned
    plain           `GCN`, `ChebNet` and `GAT`, as in their papers
    neighbourhood   the part of a program that the latter two look at
    arrays          sizes and types of arrays, from scaled features
    spreading       where layouts come from, and where they meet
    effects         what layouts do to arrays
    products        what padding costs products
    instructions    configurable instructions without their layouts
    cells           pairs of a configurable node and its layouts
    options         checks of the models' options
"""
