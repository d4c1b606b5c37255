"""Schedules of other programs, for tests of the commands that import them."""

from importlib import import_module

ENTRIES = {"tick": {"task": "t", "schedule": 60}}

scheduler = import_module("apscheduler.schedulers.background").BackgroundScheduler(timezone="UTC")
scheduler.add_job("os:getcwd", "interval", hours=1, id="tick")
