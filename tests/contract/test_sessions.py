"""Sessions of browsers, and the links that begin them."""

import asyncio
from datetime import timedelta

import pytest

from duetime.errors import NotFound
from duetime.ids import new_id
from duetime.model.access import ApiKey, Role
from duetime.model.identity import Identity
from duetime.model.session import (
    EVERYWHERE,
    MOST_LINKS,
    MOST_SESSIONS,
    NewSession,
    Session,
    SessionScope,
    new_token,
    token_hash,
)
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT
from tests.contract.test_access import key
from tests.contract.worlds import Time

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


async def begin(store: Store, of: ApiKey, token: str | None = None) -> Session:
    """A session of a key: of a day at most, and of an hour without use."""
    hash = token_hash(token or new_token())
    made = await store.sessions.begin_session(NewSession(new_id(), of.id, hash, "192.0.2.1", "curl"), DAY, HOUR)
    assert made is not None
    return made


async def test_a_session_is_found_by_the_hash_of_its_token(store: Store, time: Time) -> None:
    owner, token = await store.access.create_key(key(role=Role.ADMIN, networks=("192.0.2.0/24",))), new_token()
    made = await begin(store, owner, token)
    assert (made.key_id, made.key_name, made.role) == (owner.id, owner.name, Role.ADMIN)
    assert (made.tenant, made.address, made.agent) == ("default", "192.0.2.1", "curl")
    assert (made.created_at, made.last_seen_at) == (time.now, time.now)
    assert (made.expires_at, made.ends_at) == (time.now + HOUR, time.now + DAY)
    found = await store.sessions.session_of(token_hash(token))
    assert found is not None and (found.session_id, found.key) == (made.id, owner)
    assert await store.sessions.session_of(token_hash(new_token())) is None


async def test_a_session_that_is_not_used_ends(store: Store, time: Time) -> None:
    token = new_token()
    made = await begin(store, await store.access.create_key(key()), token)
    time.advance(minutes=59)
    assert await store.sessions.session_of(token_hash(token)) is not None
    time.advance(minutes=1)
    assert await store.sessions.session_of(token_hash(token)) is None
    await store.sessions.touch_sessions([made.id], HOUR)
    assert await store.sessions.session_of(token_hash(token)) is None, "what has ended stays ended"
    assert await store.sessions.sessions(EVERYWHERE) == []


async def test_use_prolongs_a_session_up_to_its_end(store: Store, time: Time) -> None:
    token = new_token()
    made = await begin(store, await store.access.create_key(key()), token)
    while time.now < made.ends_at:
        assert await store.sessions.session_of(token_hash(token)) is not None
        (found,) = await store.sessions.sessions(EVERYWHERE)
        assert found.expires_at <= made.ends_at
        time.advance(minutes=59)
        await store.sessions.touch_sessions([made.id], HOUR)
    assert await store.sessions.session_of(token_hash(token)) is None


async def test_the_last_use_is_noted_once_a_minute(store: Store, time: Time) -> None:
    made = await begin(store, await store.access.create_key(key()))
    time.advance(seconds=59)
    await store.sessions.touch_sessions([made.id], HOUR)
    assert [found.last_seen_at for found in await store.sessions.sessions(EVERYWHERE)] == [made.created_at]
    time.advance(seconds=2)
    await store.sessions.touch_sessions([made.id], HOUR)
    assert [found.last_seen_at for found in await store.sessions.sessions(EVERYWHERE)] == [time.now]


@pytest.mark.parametrize("end", ["revoke", "expire"])
async def test_sessions_and_links_end_with_their_key(store: Store, time: Time, end: str) -> None:
    owner = await store.access.create_key(key(expires_at=time.now + timedelta(minutes=5)))
    token, link = new_token(), new_token()
    made = await begin(store, owner, token)
    assert await store.sessions.add_login_link(owner.id, token_hash(link), HOUR) == time.now + HOUR
    if end == "revoke":
        await store.access.revoke_key(TENANT, owner.id)
    else:
        time.advance(minutes=5)
    assert await store.sessions.session_of(token_hash(token)) is None
    assert await store.sessions.sessions(EVERYWHERE) == []
    with pytest.raises(NotFound):
        await store.sessions.end_session(EVERYWHERE, made.id)
    assert await store.sessions.take_login_link(token_hash(link)) is None
    assert await store.sessions.add_login_link(owner.id, token_hash(new_token()), HOUR) is None
    again = NewSession(new_id(), owner.id, token_hash(new_token()), "", "")
    assert await store.sessions.begin_session(again, DAY, HOUR) is None


async def test_the_sessions_of_a_key_are_bounded(store: Store, time: Time) -> None:
    owner, other = await store.access.create_key(key()), await store.access.create_key(key())
    over = await begin(store, owner)
    time.advance(hours=1)
    kept = await begin(store, other)
    made = [await begin(store, owner) for _ in range(MOST_SESSIONS + 3)]
    found = await store.sessions.sessions(SessionScope(key_id=owner.id), limit=1000)
    assert {each.id for each in found} == {each.id for each in made[3:]}, "the oldest have ended"
    assert over.id not in {each.id for each in found}
    assert [each.id for each in await store.sessions.sessions(SessionScope(key_id=other.id))] == [kept.id]


async def test_sessions_that_begin_at_once_are_bounded_too(store: Store) -> None:
    owner = await store.access.create_key(key())
    await asyncio.gather(*(begin(store, owner) for _ in range(MOST_SESSIONS + 10)))
    assert len(await store.sessions.sessions(SessionScope(key_id=owner.id), limit=1000)) == MOST_SESSIONS


async def test_sessions_are_listed_and_ended_by_key_and_by_tenant(store: Store) -> None:
    mine, other = await store.access.create_key(key()), await store.access.create_key(key())
    theirs, root = await store.access.create_key(key(STRANGER)), await store.access.create_key(key(None, Role.ROOT))
    made = [await begin(store, of) for of in (mine, mine, other, theirs, root)]
    ids = [each.id for each in made]

    async def seen(scope: SessionScope) -> list[int]:
        return [ids.index(each.id) for each in await store.sessions.sessions(scope)]

    assert await seen(SessionScope(key_id=mine.id)) == [1, 0]
    assert await seen(SessionScope(tenant_id=TENANT)) == [2, 1, 0]
    assert await seen(EVERYWHERE) == [4, 3, 2, 1, 0]
    assert [ids.index(each.id) for each in await store.sessions.sessions(EVERYWHERE, ids[3], 2)] == [2, 1]
    assert (await store.sessions.sessions(EVERYWHERE))[0].tenant is None, "a root key has none"
    for scope, place in ((SessionScope(key_id=mine.id), 2), (SessionScope(tenant_id=TENANT), 3)):
        with pytest.raises(NotFound):
            await store.sessions.end_session(scope, ids[place])
    assert (await store.sessions.end_session(SessionScope(key_id=mine.id), ids[0])).id == ids[0]
    assert (await store.sessions.end_session(SessionScope(tenant_id=TENANT), ids[2])).id == ids[2]
    assert (await store.sessions.end_session(EVERYWHERE, ids[4])).id == ids[4]
    assert await seen(EVERYWHERE) == [3, 1]
    with pytest.raises(NotFound):
        await store.sessions.end_session(EVERYWHERE, ids[0])


async def test_a_session_ends_by_its_token(store: Store) -> None:
    token = new_token()
    await begin(store, await store.access.create_key(key()), token)
    assert await store.sessions.end_session_of(token_hash(token))
    assert await store.sessions.session_of(token_hash(token)) is None
    assert not await store.sessions.end_session_of(token_hash(token))


async def test_a_link_is_good_for_one_session_and_for_a_while(store: Store, time: Time) -> None:
    owner, tokens = await store.access.create_key(key()), [new_token(), new_token()]
    for token in tokens:
        await store.sessions.add_login_link(owner.id, token_hash(token), HOUR)
    taken = await asyncio.gather(*(store.sessions.take_login_link(token_hash(tokens[0])) for _ in range(5)))
    assert [found for found in taken if found is not None] == [owner], "one of those who ask at once"
    time.advance(hours=1)
    assert await store.sessions.take_login_link(token_hash(tokens[1])) is None


async def test_the_links_of_a_key_are_bounded(store: Store, time: Time) -> None:
    owner, tokens = await store.access.create_key(key()), [new_token() for _ in range(MOST_LINKS + 2)]
    for place, token in enumerate(tokens):
        if place == 2:
            time.advance(seconds=1)
        await store.sessions.add_login_link(owner.id, token_hash(token), HOUR)
    found = [await store.sessions.take_login_link(token_hash(token)) is not None for token in tokens]
    assert found == [False, False, *[True] * MOST_LINKS]


async def test_what_is_over_is_pruned(store: Store, time: Time) -> None:
    owner = await store.access.create_key(key())
    await begin(store, owner)
    await store.sessions.add_login_link(owner.id, token_hash(new_token()), HOUR)
    time.advance(minutes=59)
    assert await store.pruning.prune(DAY, DAY) == 0
    time.advance(minutes=2)
    assert await store.pruning.prune(DAY, DAY) == 2
    assert await store.pruning.prune(DAY, DAY) == 0


async def test_a_person_has_sessions_without_a_key(store: Store) -> None:
    person = Identity("acme", "https://id.example.com", "ann-1", "ann@example.com", (("groups", "ops"),))
    token = new_token()
    browser = ("192.0.2.1", "curl")
    new = NewSession(new_id(), person.id, token_hash(token), *browser, person, (TENANT,))
    made = await store.sessions.begin_session(new, DAY, HOUR)
    assert made is not None and (made.identity, made.role, made.key_name) == (person, None, None)
    again = NewSession(new.id, person.id, token_hash(new_token()), *browser, person, (TENANT,))
    assert await store.sessions.begin_session(again, DAY, HOUR) is None, "one login, one session"
    opened = await store.sessions.session_of(token_hash(token))
    assert opened is not None and (opened.session_id, opened.key, opened.identity) == (new.id, None, person)
    for scope, found in (
        (SessionScope(tenant_id=TENANT), [made]),
        (SessionScope(tenant_id=STRANGER), []),
        (SessionScope(key_id=person.id), [made]),
        (EVERYWHERE, [made]),
    ):
        assert await store.sessions.sessions(scope) == found
    with pytest.raises(NotFound):
        await store.sessions.end_session(SessionScope(tenant_id=STRANGER), new.id)
    await store.sessions.end_session(SessionScope(tenant_id=TENANT), new.id)
    assert await store.sessions.session_of(token_hash(token)) is None
