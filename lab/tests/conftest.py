"""What the tests of the laboratory share: that of the toolkit's, and the device."""

from tests import conftest

pytest_configure = conftest.pytest_configure
pytest_xdist_auto_num_workers = conftest.pytest_xdist_auto_num_workers
pytest_collection = conftest.pytest_collection
pytest_collection_modifyitems = conftest.pytest_collection_modifyitems
_no_power_cut = conftest._no_power_cut
weights_alone = conftest.weights_alone


def pytest_addoption(parser):
    """Adds the device that lab/tests/measure/clock runs modules on."""
    parser.addoption('--platform', default='cpu', choices=['cpu', 'gpu'])
