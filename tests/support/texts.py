"""Schedules as people write them, well and badly: for tests and for the benchmark."""

import string
from random import Random

from duetime.model.schedule import Cron, make_cron
from duetime.model.schedule.rrule_parts import FREQUENCIES, KNOWN
from duetime.model.schedule.words.vocabulary import PHRASES, VOCABULARY

ZONES = ["Europe/Berlin", "America/New_York", "UTC", "Asia/Kolkata", "Australia/Lord_Howe"]


def cron_lines(count: int) -> list[Cron]:
    """As many different lines and zones."""
    random = Random(5)
    found: dict[str, Cron] = {}
    while len(found) < count:
        minute = random.choice(["*", "*/5", "*/15", str(random.randrange(60))])
        hour = random.choice(["*", "*/2", str(random.randrange(24))])
        days = random.choice(["* * *", "* * MON-FRI", "1 * *", "L * *", "* 3 *", "* * 5L", "29 2 *"])
        cron = make_cron(f"{minute} {hour} {days}", random.choice(ZONES))
        found[str(cron)] = cron
    return list(found.values())


def garbage(random: Random) -> str:
    """Text of every sort: cron lines, durations, intervals and phrases gone wrong, and pure noise."""
    kind = random.randrange(8)
    if kind == 0:
        likely = ["*", "*", "*", "0", "9", "1-5", "*/5", "1-5/2", "2,3", "7"]
        odd = ["60", "-1", "*/0", "5-1", "L", "LW", "MON", "FRI#9", "5L", "?", ",", "1,", "W", "31"]
        odd += ["15W", "L-3", "H", "H/7", "H(0-5)", "22-2", "FRI-MON", "+FRI", "MONDAY", "2027", "0~9", "* ; *"]
        count = random.choice([5, 5, 5, 6, random.randint(1, 8)])
        return " ".join(random.choice(odd if random.random() < 0.15 else likely) for _ in range(count))
    if kind == 1:
        return "".join(random.choice("0123456789*/,-LW# ?MONFRI@") for _ in range(random.randint(0, 40)))
    if kind == 2:
        return "".join(random.choice("PRTYMWDHS0123456789./:-Z ") for _ in range(random.randint(1, 30)))
    if kind == 3:
        return " ".join(random.choice(VOCABULARY) for _ in range(random.randint(1, 9)))
    if kind == 4:
        words = random.choice(PHRASES).split()
        for _ in range(random.randint(1, 3)):
            position = random.randrange(len(words))
            changed = random.choice([random.choice(VOCABULARY), str(random.randint(0, 10**6)), words[position][1:], ""])
            words[position : position + 1] = [changed]
        return " ".join(words)
    if kind == 7:
        parts = [f"FREQ={random.choice([*FREQUENCIES, 'X'])}"]
        for _ in range(random.randint(0, 5)):
            values = ",".join(str(random.randint(-60, 60)) for _ in range(random.randint(1, 4)))
            value = random.choice([values, values, "1", "MO,-1FR", "20300101T000000"])
            parts.append(f"{random.choice([*KNOWN, 'BYEASTER'])}={value}")
        return random.choice(["", "RRULE:", "DTSTART:20260105T090000 RRULE:"]) + ";".join(parts)
    if kind == 5:
        return "".join(random.choice(string.printable) for _ in range(random.randint(0, 60)))
    return "".join(chr(random.choice([random.randint(0, 0x2FF), random.randint(0, 0x10FFFF)])) for _ in range(20))
