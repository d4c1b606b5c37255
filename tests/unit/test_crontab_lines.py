"""Reading a crontab as cron reads it."""

from duetime.cli.crontab_lines import Entry, LeftOut, read_crontab

CRONTAB = """\
# m h dom mon dow command
MAILTO=ops@example.com
PATH = "/usr/bin:/bin"

*/5 * * * *   /opt/poll --fast   # kept: cron knows no comments after a command
CRON_TZ=Europe/Berlin
0 9 * * mon-fri report "50\\% done"
@daily cleanup
@reboot start-it
@sometimes odd
0 1 * * * cat > /tmp/x%first line%second \\% line
0 1 * *
"""


def test_a_crontab() -> None:
    entries, left_out = read_crontab(CRONTAB.splitlines())
    env = {"MAILTO": "ops@example.com", "PATH": "/usr/bin:/bin"}
    command = "/opt/poll --fast   # kept: cron knows no comments after a command"
    assert entries[0] == Entry(5, "*/5 * * * *", command, env=env)
    assert entries[1] == Entry(7, "0 9 * * mon-fri", 'report "50% done"', tz="Europe/Berlin", env=env)
    assert (entries[2].cron, entries[2].command) == ("0 0 * * *", "cleanup")
    assert (entries[3].command, entries[3].stdin) == ("cat > /tmp/x", "first line\nsecond % line\n")
    assert [(each.line, each.reason) for each in left_out] == [
        (9, "@reboot has no time, and a job needs one"),
        (10, "@sometimes is not a schedule of cron"),
        (12, "the line has no command"),
    ]


def test_a_system_crontab_names_users() -> None:
    entries, left_out = read_crontab(["17 * * * * root run-parts /etc/cron.hourly", "@hourly root"], system=True)
    assert [(each.user, each.command) for each in entries] == [("root", "run-parts /etc/cron.hourly")]
    assert left_out == [LeftOut(2, "@hourly root", "the line has no command")]
    assert entries[0].args == {"command": "run-parts /etc/cron.hourly", "user": "root"}


def test_the_same_line_has_the_same_key_wherever_it_stands() -> None:
    (first,), _ = read_crontab(["0 1 * * * x"])
    (second,), _ = read_crontab(["", "# moved", "0 1 * * * x"])
    (other,), _ = read_crontab(["CRON_TZ=Asia/Tokyo", "0 1 * * * x"])
    assert first.key == second.key != other.key


def test_an_interval_is_two_words() -> None:
    (entry,), left_out = read_crontab(["@every 90s poll --fast"])
    assert (entry.cron, entry.command, left_out) == ("@every 90s", "poll --fast", [])
