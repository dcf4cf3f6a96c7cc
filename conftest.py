"""Loaded by every pytest run in this checkout; makes plain `pytest --nbval notebooks` work."""

pytest_plugins = ["hipbook.notebooks.nbval_plugin"]
