"""The dashboard: plain files, which use only the public API. `bundle.py` joins the modules to one script.

static/index.html       the page that loads everything; its addresses contain the versions of all files
static/app.js           the routes
static/core/            requests, events, addresses, time zone, formatting, shared hooks
static/parts/           components: charts, bars, tables, dialogs, forms
static/pages/           one file for each page
static/vendor/          third-party libraries with their licences
"""

from duetime.dashboard.files import PAGES, STYLE, File, Files

__all__ = ["PAGES", "STYLE", "File", "Files"]
