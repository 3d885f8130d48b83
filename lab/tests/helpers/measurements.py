"""The sidecar of a collection, made by hand."""

SIDECAR_KERNEL = {
    'file': 'k.npz',
    'program': 'p',
    'origin': 'fusion',
    'split': '',
    'noisy': False,
    'passes': 4,
    'tau': 1,
    'drift': 1.5,
    'again': 1.0,
    'halves': [[5, 6], [7, 8]],
    'configs': [{}, {}],
    'dropped': {},
}
SIDECAR = {'collection': {}, 'machine': {'cpu': 'x'}, 'kernels': {'k': SIDECAR_KERNEL}}
