"""Layout models beside the published one, on arrays as they lie in memory.

Every public `tf.keras.Model` in a file of this package is a `--model`, unless it
says `is_base = True`: a new model is a new file.  A class of the same name in
`baselines/layout/models.py` takes its place.

    arrays      what is known of nodes without their layouts
    spreading   where layouts come from, and where they meet
    effects     what layouts do to arrays
    products    what padding costs products
    cells       pairs of a configurable node and its layouts
    physical    `PhysicalModel`: amounts of work times learned corrections
    families    the same as it is, and with layers of messages
    padded      `PhysicalModel` beside the padded work of products
    tgraph      a model that is learned alone
    options     what their options may be
"""
