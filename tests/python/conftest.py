# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`pytest --full` runs the tests marked `full` as well, which take long."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run the tests that take long as well")


def pytest_configure(config):
    config.addinivalue_line("markers", "full: takes long; runs with --full only")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--full"):
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(pytest.mark.skip(reason="takes long: ./dev test --full"))
