"""Functions with `process=True`, each in its own process that can be killed.

Children are kept for the next attempt. An attempt is stopped by killing its child, and a child that dies ends only the
attempt that it is doing. If it dies before it has called the function, the attempt is not spent: the run gets another
child.

For short functions, a few runs wait here for the next free child (`backlog.py`), and a few more in each child, as many
as it ends within some milliseconds. The latter are recalled when one of them is stopped, when another child has nothing
to do, and when they have waited too long.

A machine may temporarily be unable to start another process. Until it can, this executor accepts no more runs than it
has children, and hands waiting runs back, unspent.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from duetime.clock import monotonic
from duetime.errors import ImportedByChild, reason_of
from duetime.model.attempt import RunNote
from duetime.model.completion import PLAIN
from duetime.model.dependency import Parent
from duetime.model.failure import Failure, FailureClass
from duetime.model.outcome import Failed, Outcome
from duetime.worker.backlog import GIVEN_BACK, LONGEST_WAIT, MOST_AHEAD, STOPPED, Backlog
from duetime.worker.children import Child, start_child
from duetime.worker.executor import Finished
from duetime.worker.import_guard import REFUSED, never_starts
from duetime.worker.prefetch import Prefetch
from duetime.worker.progress_reports import ProgressReports
from duetime.worker.running_attempt import Running
from duetime.worker.threads import SAVE_DEADLINE

_START_DEADLINE = 300.0
"""Seconds that a child may take to start and import a function's module. The run's timeout counts after that."""
_STARTS = 3
_NO_ROOM = (OSError, MemoryError, RuntimeError)
"""Raised when the machine cannot start another process or thread."""
_ROOM_INTERVAL = 1.0
"""Seconds until the next try."""
_LAST_WORD = 5.0
_DEEPEST = 64
"""How many runs a child holds at most."""
_CHILD_SHARE = 4
"""A child holds one in `_CHILD_SHARE` of its share of the runs that are claimed ahead: 5 ms of work."""
_SLOW = 0.02
"""Seconds after which no more runs are put behind one in progress."""
_QUESTIONS = ("checkpoint", "parents")

log = logging.getLogger("duetime.worker")


class ProcessExecutor:
    def __init__(
        self,
        size: int,
        notes: ProgressReports,
        finished: Finished,
        claim_ahead: Callable[[int], None],
        max_result: int,
        max_log_lines: int,
    ) -> None:
        self._size = size
        self._progress_reports = notes
        self._finished = finished
        self._claim_ahead = claim_ahead
        self._prefetch = Prefetch(size, MOST_AHEAD, self._claim)
        self._limits = (max_result, max_log_lines)
        self._loop = asyncio.get_running_loop()
        self._waiting = Backlog(self._all_are_busy, self._give_back, self._recall_late)
        self._children: set[Child] = set()
        self._depth = 1
        """How many runs a child may hold."""
        self._assigns_soon = False
        self._held = 0
        """How many runs it has accepted and not ended."""
        self._spawning = 0
        self._has_room = True
        """Whether the last child could be started."""
        self._doing: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self, running: Running) -> None:
        if not self._held:
            self._prefetch.busy()
        self._held += 1
        self._waiting.add(running)
        self._assign()

    def stop(self, running: Running) -> None:
        if isinstance(running.handle, Child):
            child = running.handle
            self._put_back(child.recall())
            if child.may_be_doing(running):
                child.kill()
            # A child that begins another one has sent the outcome of this one.
        if self._waiting.withdraw(running):
            self._loop.call_soon(self._end, running, STOPPED)

    def close(self) -> None:
        self._closed = True
        self._waiting.close()
        for each in self._children:
            if each.held:
                each.kill()
            each.retire()

    def _assign(self) -> None:
        """Give waiting runs to children, and start as many children as are needed."""
        if not self._waiting:
            self._share_out()
        now = monotonic()
        ready = [child for child in self._children if self._has_room_in(child, now)] if self._waiting else []
        ready.sort(key=_held, reverse=True)
        while ready and self._waiting:
            # Even shares, so that none waits in one child while another has nothing to do.
            share = -(-len(self._waiting) // len(ready))
            child = ready.pop()
            if child.usable:
                # One that has called nothing yet may take long to begin.
                room = self._depth - len(child.held) if child.is_warm else 1
                child.give(self._waiting.take_many(min(share, room)), self._limits, _START_DEADLINE)
        while self._has_room and self._spawning < min(len(self._waiting), self._size - len(self._children)):
            self._spawn()

    def _has_room_in(self, child: Child, now: float) -> bool:
        return not child.held or (2 * len(child.held) <= self._depth and now - child.head_since < _SLOW)

    def _share_out(self) -> None:
        """Recall runs from the fullest child if another has nothing to do."""
        if self._depth > 1 and len(self._children) > 1 and not all(map(_held, self._children)):
            fullest = max(self._children, key=_held)
            if len(fullest.held) > 1:
                self._waiting.put_back(fullest.recall())

    def _recall_late(self) -> bool:
        """Recall runs that have waited too long in a child; whether others wait in one."""
        late = monotonic() - LONGEST_WAIT
        behind = [child for child in self._children if len(child.held) > 1]
        for child in behind:
            if child.head_since <= late:
                self._put_back(child.recall())
        return any(len(child.held) > 1 for child in behind)

    def _put_back(self, recalled: list[tuple[Running, float]]) -> None:
        """Let runs wait again. They are assigned a turn later: more of them may be stopped in this one."""
        if recalled:
            self._waiting.put_back(recalled)
            if not self._assigns_soon:
                self._assigns_soon = True
                self._loop.call_soon(self._assign_again)

    def _assign_again(self) -> None:
        self._assigns_soon = False
        if not self._closed:
            self._assign()

    def _spawn(self) -> None:
        self._spawning += 1
        self._do(self._add_child())

    async def _add_child(self) -> None:
        try:
            process, ends = await start_child()
            await self._loop.create_unix_connection(
                lambda: Child(process, ends, self._on_started, self._on_message, self._on_read, self._on_exit),
                sock=ends.messages,
            )
        except _NO_ROOM as error:
            self._spawning -= 1
            self._wait_for_room(error)
        except Exception as error:
            self._spawning -= 1
            if (running := self._waiting.take()) is not None:
                self._end(running, _unusable(error))
                self._assign()

    def _wait_for_room(self, error: BaseException) -> None:
        if self._closed:
            return
        if self._has_room:
            self._has_room = False
            log.warning("cannot start a process: %r; runs that need one wait", error)
        self._prefetch.reset()
        if not self._spawning:
            self._loop.call_later(_ROOM_INTERVAL, self._look_for_room)

    def _look_for_room(self) -> None:
        if not self._closed and not self._has_room and not self._spawning:
            self._spawn()

    def _claim(self, ahead: int) -> None:
        """Have this many runs claimed in addition to those in progress, and derive from it how many each child may
        hold."""
        self._depth = min(_DEEPEST, max(1, ahead // (_CHILD_SHARE * self._size)))
        self._claim_ahead(ahead if self._has_room else len(self._children) - self._size)

    def _all_are_busy(self) -> bool:
        return all(map(_held, self._children)) and (len(self._children) >= self._size or not self._has_room)

    def _give_back(self, late: list[Running]) -> None:
        self._prefetch.reset()
        for running in late:
            self._end(running, GIVEN_BACK)

    # Messages from a child.

    def _on_started(self, worker: Child) -> None:
        self._spawning -= 1
        if self._closed:
            worker.retire()
            return
        self._children.add(worker)
        if not self._has_room:
            self._has_room = True
            log.info("processes can be started again")
            self._prefetch.reset()
        self._assign()

    def _on_message(self, worker: Child, kind: str, order: int, content: Any) -> None:
        if kind == REFUSED:
            worker.fail(ImportedByChild(content))
            return
        if not worker.held or order != worker.held[0].order:  # a thread that a function left behind
            if kind in _QUESTIONS:
                worker.answer(content[0], "its attempt has ended")
            return
        running = worker.held[0].running
        match kind:
            case "begun":
                worker.has_begun()
            case "progress":
                self._progress_reports.remember(running.session.id, content)
            case "checkpoint":
                self._do(self._save(worker, running, *content))
            case "parents":
                self._do(self._parents(worker, running, content[0]))
            case "log":
                running.attempt_log.add(*content)
            case "outcome":
                worker.let_go()
                self._ended(running, PLAIN if content is None else content)

    def _on_read(self, worker: Child) -> None:
        """All messages that have arrived were handled."""
        if not self._closed and 2 * len(worker.held) <= self._depth:
            self._assign()

    def _on_exit(self, worker: Child, problem: Exception | None) -> None:
        self._children.discard(worker)
        if not self._closed:
            if not self._has_room:
                self._prefetch.reset()
            back = worker.recall()
            # If it has begun none of them, it died while it was to begin the first one.
            unborn = [] if worker.held else [running for running, _ in back[:1]]
            self._put_back(back[len(unborn) :])
            self._do(self._take_leave(worker, unborn, problem))
            self._assign()

    async def _take_leave(self, worker: Child, unborn: list[Running], problem: Exception | None) -> None:
        exitcode = await worker.exit_code(_LAST_WORD)
        worker.kill()  # it may have closed its end and still be alive
        while worker.held:
            self._lost(worker.let_go(), problem, exitcode)
        for running in unborn:
            self._lost(running, problem, exitcode)
        self._assign_again()

    def _lost(self, running: Running, problem: Exception | None, exitcode: int | None) -> None:
        """The child that was doing this run has exited."""
        if problem is not None:
            self._ended(running, _unusable(problem))
        elif not running.begun and self._gets_another_child(running):
            self._waiting.put_back([(running, monotonic())])
        else:
            when = "" if running.begun else f" before it started, {running.false_starts} times"
            self._ended(running, Failed(Failure(FailureClass.ERROR, f"its process ended{when}: {_how(exitcode)}")))

    def _gets_another_child(self, running: Running) -> bool:
        """A child that died before it called the function has spent nothing. A run whose children always die fails."""
        running.false_starts += 1
        return running.false_starts < _STARTS and running.stop is None and not self._closed

    def _ended(self, running: Running, outcome: Outcome) -> None:
        self._prefetch.ended(running)
        self._end(running, outcome)

    def _end(self, running: Running, outcome: Outcome) -> None:
        self._held -= 1
        if not self._held:
            self._prefetch.idle()
        self._finished(running, outcome)

    async def _save(self, worker: Child, running: Running, question: int, note: RunNote) -> None:
        answer = None
        try:
            async with asyncio.timeout(SAVE_DEADLINE):
                await self._progress_reports.save(running.session.id, note)
        except Exception as error:
            answer = reason_of(error)
        worker.answer(question, answer)

    async def _parents(self, worker: Child, running: Running, question: int) -> None:
        answer: list[Parent] | str
        try:
            async with asyncio.timeout(SAVE_DEADLINE):
                answer = await self._progress_reports.parents(running.session.id, running.claimed.run_id)
        except Exception as error:
            answer = reason_of(error)
        worker.answer(question, answer)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._doing.add(task)
        task.add_done_callback(self._doing.discard)


def _unusable(error: Exception) -> Outcome:
    if isinstance(error, ImportedByChild):
        return never_starts(error)
    return Failed(Failure(FailureClass.ERROR, f"its process failed: {error!r}"))


def _held(child: Child) -> int:
    return len(child.held)


def _how(exitcode: int | None) -> str:
    if exitcode is None:
        return "it does not answer"
    if exitcode < 0:
        return f"killed by {signal.Signals(-exitcode).name}"
    return f"exit code {exitcode}"
