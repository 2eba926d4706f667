"""The course as a static site: JupyterLite, Pyodide and every wheel in one folder, no network.

`make site` runs `python -m tools.site` (see `__main__.py` for the order of the steps).
"""
