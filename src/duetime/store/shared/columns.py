"""The types of the columns of all statements, by their names.

PostgreSQL knows the types of its columns. SQLite's values are numbers, texts and bytes; this table says how to decode
them. A column that is missing here causes an error the first time its statement runs.
"""

from enum import Enum, auto


class Kind(Enum):
    PLAIN = auto()
    """A number, a text or bytes, as it is stored."""
    FLAG = auto()
    MOMENT = auto()
    DURATION = auto()
    ID = auto()
    """A UUID. Numbers of tenants, lanes or limits, and other parts of a key, stay as they are."""
    IDS = auto()
    """UUIDs."""
    NAMES = auto()
    """A list of texts."""
    DATES = auto()
    """A list of days."""


_NAMES = {
    Kind.PLAIN: """
        action actor address age agent answer args arguments arrived attempt attempt_state attempts bad body busy bytes
        checkpoint checksum child claim_no count counted crowd day dead_letters defaults depth detail digest done
        end_state ends error errors exit_code expires failed failure fence fingerprint fires_per_second flow followed
        generation hash held_back hint history home_lane identity jobs key key_name keys kind lane_id level limit_id
        live logs losses lost made marks message met missed name name_hash need nodes note number object options
        otherwise owed owner parent parked_by pass_no pauses ping pings place plan problem progress put_off_by queue
        quotas rate read readings reason received repeated requested_by result retried revision role rows rule run_us
        running running_runs runs said schedule seen settings size skipped slots standing state state_before status step
        stored_jobs stretch submissions_per_second tag target task tenant tenant_id text there tier timeout_ms
        token_hash told trial tried trips unended unmet unplanned value version waits wanted weight workers wrapped
        wrapped_by
    """,
    Kind.FLAG: """
        among cancel_requested crowded elsewhere encrypt_args exact gone held known one_off open paused recurring
        retired soon stopped unclaimed usable
    """,
    Kind.MOMENT: """
        archived_at at began_at changed_at checked_at counts_from created_at died_at due_at end_finished_at
        end_started_at ended_at ends_at erase_at expires_at filled_at finished_at first_died_at first_started_at good_at
        heard_at horizon judge_at judged_at last_fire_at last_seen_at last_used_at lease_until live_started_at
        next_fire_at next_run paused_at pinged_at read_at ready_at released_at removed_at requested_at restored_until
        revoked_at rewound_at rewound_from rewound_to scan_at seen_at served_at served_since since started_at stepped_at
        succeeded_at trusted_at until waiting wrong_since
    """,
    Kind.DURATION: "period ran_for",
    Kind.ID: """
        below child_id end_id first_run graph_id highest id job_id key_0 key_1 key_2 key_id last_run live_id lowest
        parent_id payload_id run_id session_id worker_id
    """,
    Kind.IDS: "ids run_ids",
    Kind.NAMES: "consumes hosts networks queues roles tags tasks",
    Kind.DATES: "dates",
}
COLUMNS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
