"""Show one case side by side: what the product says and what brute force says."""

import sys
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from duetime.model.schedule import make_cron
from tests.oracle.contract import Expression, Stretch, after

line, zone, start = sys.argv[1], sys.argv[2], datetime.fromisoformat(sys.argv[3])
unit = Expression(line.partition(";")[0]).unit
begin = (start - timedelta(days=2)).replace(second=0, microsecond=0)
expected = after(Stretch(zone, begin, begin + timedelta(days=5), unit).fires_of(line), start)[:40]
cron, moment = make_cron(line, zone), start
print(f"{'brute force':27} {'the product':27} on the wall")
for fire in expected:
    found = cron.next_after(moment)
    local = fire.astimezone(ZoneInfo(zone)).isoformat()
    print(
        f"{fire.isoformat():27} {found.isoformat() if found else 'nothing':27} {local} {'' if fire == found else '←'}"
    )
    moment = fire
