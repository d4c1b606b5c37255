"""The dashboard: what the browser gets. Plain files, served as they are; they speak to the public API and nothing else.

static/index.html       the page around everything; its address names the versions of all files
static/app.js           which page is shown
static/core/            asking the API, listening to events, words and numbers, what pages share
static/parts/           what pages are made of: charts, bars, tables, dialogs
static/pages/           one file for each page
static/vendor/          libraries of others, with their licences
"""

from duetime.dashboard.files import PAGES, File, Files

__all__ = ["PAGES", "File", "Files"]
