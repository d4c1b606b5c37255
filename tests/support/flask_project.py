"""A Flask application whose tasks read its configuration: a template with the name of its factory."""

FLASK = """
import duetime
from duetime.integrations.flask import Duetime
from flask import Flask, current_app

jobs = duetime.App()
extension = Duetime(jobs{flask_app})


@jobs.task(retries=0, process=True)
def in_process() -> str:
    return current_app.config["SENDER"]


@jobs.task(retries=0, process=True)
async def async_in_process() -> str:
    return current_app.config["SENDER"]


def {factory}(sender: str = "by default") -> Flask:
    app = Flask(__name__)
    app.config |= {{"DUETIME_DATA_DIR": "data", "SENDER": sender}}
    extension.init_app(app)
    return app
"""
