"""What all tests share."""

import baselines  # noqa: F401  chooses Keras before a test imports TensorFlow
