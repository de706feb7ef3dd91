"""The client's side of a fit: it plans, starts the members, watches them, and begins again when one is lost.

Every wait here looks again at least once a second at whether there still are a scheduler and workers.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from distributed import Client, Future, wait
from distributed.scheduler import KilledWorker

from stagewise.boosting.checkpoint import Progress
from stagewise.boosting.model import History, Model
from stagewise.boosting.monitor import Interrupt, Stage, deferred_interrupt
from stagewise.dask.mailbox import abort_run, forget_run, open_mailboxes, stop_run
from stagewise.dask.member import Job, Outcome, train
from stagewise.errors import ClusterError

__all__ = ["Fleet"]

_NO_SCHEDULER = 20.0
"""Seconds without an answer from the scheduler after which it counts as gone."""

_NO_WORKER = 30.0
"""Seconds without any worker after which none is expected to come back."""

_FROZEN = 20.0
"""Seconds without a sign of life after which a worker counts as lost. Living ones tell the scheduler every half second,
every two seconds where there are two hundred of them."""

_ASK = 2.0
"""Seconds between two looks at those signs."""

_FRUITLESS = 10
"""How often members may fail one after the other without finishing a stage."""


class Fleet:
    """The workers that a client sees."""

    def __init__(self, client: Client) -> None:
        if client.asynchronous:
            raise ClusterError("fit needs a Client that is not asynchronous; make one with Client(address).")
        self.client, self.run = client, uuid.uuid4().hex
        self._heard = self._manned = time.monotonic()
        self.generations = 0
        self.bytes_sent, self.histograms = 0, 0  # by one member, for a model
        self.on_disk = 0  # members whose codes were mapped
        self.interrupted, self.lines = False, "dask"
        self.frozen: list[str] = []  # workers that were alive, and answered no more
        self._pulse: dict[str, tuple[float, float]] = {}  # of each worker: its last sign of life, and when we saw that
        self._asked = 0.0
        self._ctrl_c = Interrupt()

    # --- waiting -----------------------------------------------------------------------------------------------------

    def workers(self) -> set[str]:
        """Addresses of the living workers; an error when the scheduler or all workers have been gone for too long."""
        now, found = time.monotonic(), None
        try:
            if self.client.status == "running":
                found = set(self.client.sync(self.client.scheduler.ncores, callback_timeout=5))
        except Exception:  # a broken connection has many names; what counts is how long it lasts
            found = None
        if found is not None:
            self._heard = now
            if found:
                found -= self._drop_frozen(now)
            if found:
                self._manned = now
        if self.client.status in ("closed", "closing") or now - self._heard > _NO_SCHEDULER:
            raise ClusterError(
                f"The scheduler at {self._address} does not answer any more; training has been given up. Start it "
                "again and connect a new Client."
            )
        if found is not None and now - self._manned > _NO_WORKER:
            raise ClusterError(
                f"No worker is left and none has joined for {_NO_WORKER:.0f} seconds; training has been given up. "
                "Start workers and fit again."
            )
        return found or set()

    def _drop_frozen(self, now: float) -> set[str]:
        """Have the scheduler forget workers that are there and do nothing (stopped, swapping, a machine cut off).

        Dask itself waits five minutes. If one wakes up again it is told to close.
        """
        if now - self._asked < _ASK:
            return set()
        self._asked, gone = now, set()
        try:
            known = self.client.sync(self.client.scheduler.identity, callback_timeout=5)["workers"]
            silent = []
            for address, own in known.items():
                if self._pulse.get(address, (None, 0.0))[0] != own["last_seen"]:
                    self._pulse[address] = own["last_seen"], now
                elif now - self._pulse[address][1] > max(_FROZEN, len(known) / 20.0):
                    silent.append(address)
            answers = self.client.sync(self._ask, silent, callback_timeout=15) if silent else []
            for address in (address for address, alive in zip(silent, answers, strict=True) if not alive):
                remove, why = self.client.scheduler.unregister, f"stagewise-{self.run}-frozen"
                self.client.sync(remove, address=address, stimulus_id=why, callback_timeout=5)
                gone.add(address)
                self.frozen.append(address)
                del self._pulse[address]
        except Exception:  # asked again in a moment
            return gone
        return gone

    async def _ask(self, addresses: list[str]) -> list[bool]:
        """Which workers do what they are asked to within five seconds: those that are merely slow are not dropped."""

        async def answers(address: str) -> bool:
            try:
                await asyncio.wait_for(self.client._run(open_mailboxes, workers=[address]), 5.0)
            except Exception:
                return False
            return True

        return await asyncio.gather(*(answers(address) for address in addresses))

    @property
    def _address(self) -> str:
        return str(getattr(self.client.scheduler, "address", "?"))

    def results(self, futures: Sequence[Future]) -> list[Any]:
        """What plain tasks return; Dask runs those of a lost worker again."""
        self.ready(futures)
        for _ in range(3):
            coming = asyncio.run_coroutine_threadsafe(self.client._gather(list(futures)), self.client.loop.asyncio_loop)
            try:
                while not concurrent.futures.wait([coming], 1.0).done:
                    self.workers()
                return list(coming.result())
            except ClusterError:
                raise
            except Exception as error:
                last = error
                self.ready(futures)
            finally:
                coming.cancel()
        raise last

    def ready(self, futures: Sequence[Future]) -> None:
        """Wait until all of them are done."""
        while True:
            self._raise_errors(futures)
            if all(future.status == "finished" for future in futures):
                return
            self.workers()
            try:
                wait(list(futures), timeout=1.0)
            except Exception:  # nothing yet, or one was lost: both are looked at above
                time.sleep(0.05)

    def _raise_errors(self, futures: Sequence[Future]) -> None:
        for future in futures:
            if future.status == "error":
                error = future.exception()
                if isinstance(error, KilledWorker):
                    raise ClusterError(
                        f"A partition was lost with its worker several times in a row ({error.task}); the workers may "
                        "run out of memory. Use smaller partitions, or fewer threads a worker."
                    ) from error
                raise error
            if future.status == "cancelled":  # "lost" means that Dask computes it again
                while not self.workers():  # all are cancelled when the scheduler goes: that is another error
                    time.sleep(0.2)
                raise ClusterError(
                    "A partition is lost and cannot be computed again: it was cancelled, or scattered to a worker that "
                    "is gone. Keep the collection alive while it is used."
                )

    # --- training ----------------------------------------------------------------------------------------------------

    def boost(
        self, parts: list[Future], firsts: list[int], watched: list[Future], job: Job, callbacks: Sequence[Any]
    ) -> Model:
        """The fitted model of the partitions: begun again from the last finished stage whenever a member is lost.

        The first Ctrl-C ends training after the stage that runs now, a second one at once.
        """
        progress: Progress | None = None
        audience = _Audience(self.client, job, callbacks)
        fruitless = 0
        with deferred_interrupt() as self._ctrl_c:
            try:
                while True:
                    outcomes = self._generation(parts, firsts, watched, job, progress, audience)
                    self.generations += 1
                    self.bytes_sent += max((outcome.bytes_sent for outcome in outcomes), default=0)
                    self.histograms += max((outcome.histograms for outcome in outcomes), default=0)
                    for outcome in outcomes:
                        if outcome.model is not None:
                            self.lines, self.on_disk = outcome.lines, outcome.on_disk
                            audience.end(outcome.model.history)
                            return outcome.model
                    best = max((o.progress for o in outcomes if o.progress), key=lambda p: len(p.stages), default=None)
                    grown = best is not None and (progress is None or len(best.stages) > len(progress.stages))
                    progress, fruitless = best if grown else progress, 0 if grown else fruitless + 1
                    if fruitless > _FRUITLESS:
                        reasons = "; ".join(sorted({outcome.reason for outcome in outcomes if outcome.reason}))
                        raise ClusterError(
                            f"Training failed {fruitless} times without finishing a stage: {reasons or 'they died.'} "
                            "Workers that are lost again and again may run out of memory."
                        )
            finally:
                audience.close()
                self._tell(forget_run, self.run)

    def _tell(self, function: Callable[..., None], *args: Any) -> None:
        """Run a function on all workers that can be reached."""
        try:
            self.client.sync(self.client._run, function, *args, on_error="ignore", callback_timeout=10)
        except Exception:  # who cannot be reached finds out by itself: see mailbox.ClusterReducer
            return

    def _places(self, futures: list[Future]) -> dict[str, list[int]]:
        """Which worker is to train on which partitions: those it holds, or the one with the fewest so far."""
        self.ready(futures)
        try:
            held = self.client.sync(
                self.client.scheduler.who_has, keys=[own.key for own in futures], callback_timeout=10
            )
        except Exception:  # asked again, until the scheduler answers or counts as gone
            return {}
        places: dict[str, list[int]] = {}
        for k, future in enumerate(futures):
            holders = sorted(held.get(future.key, ()), key=lambda address: (len(places.get(address, ())), address))
            if not holders:
                return {}
            places.setdefault(holders[0], []).append(k)
        return places

    def _generation(
        self,
        parts: list[Future],
        firsts: list[int],
        watched: list[Future],
        job: Job,
        progress: Progress | None,
        audience: _Audience,
    ) -> list[Outcome]:
        began = time.monotonic()
        while not (places := self._places(parts)) or not set(places) <= self.workers():
            if time.monotonic() - began > 60.0:
                raise ClusterError("The partitions are on no worker that can be reached; training has been given up.")
            time.sleep(0.2)
        eyes = self._places(watched) if watched else {}
        members = sorted(places)
        self._tell(open_mailboxes)
        running = {
            address: self.client.submit(
                train, [parts[k] for k in places[address]], [firsts[k] for k in places[address]],
                [watched[k] for at, own in eyes.items() for k in own if self._guest(at, members) == address],
                job, members, self.generations, progress,
                workers=[address], allow_other_workers=False, pure=False, retries=0,
                key=f"stagewise-train-{self.run}-{self.generations}-{rank}", priority=10,
            )
            for rank, address in enumerate(members)
        }  # fmt: skip
        try:
            self._watch(running, job, audience)
        finally:
            # whatever happened, no member goes on: a cancelled task ends by itself at its next exchange
            finished = {address: future for address, future in running.items() if future.status == "finished"}
            if len(finished) < len(running):
                self._tell(abort_run, self.run, self.generations, "a member was lost or failed.")
            leftover = [future for future in running.values() if future.status != "finished"]
            if leftover:
                leftover = self._last_words(running)
            if leftover:
                with contextlib.suppress(Exception):  # members that are not cancelled end when nobody waits for them
                    self.client.sync(self.client._cancel, leftover, force=True, callback_timeout=10)
        outcomes: list[Outcome] = []
        for future in running.values():
            if future.status == "finished":
                try:
                    outcomes.append(future.result(timeout=10))
                except Exception:  # the worker has gone with its result
                    continue
                if outcomes[-1].model is not None:  # all members have the same one
                    break
        return outcomes

    @staticmethod
    def _guest(address: str, members: list[str]) -> str:
        """Validation rows on a worker that does not train go to some member."""
        return address if address in members else members[hash(address) % len(members)]

    def _watch(self, running: dict[str, Future], job: Job, audience: _Audience) -> None:
        """Until all members are done, or one is lost or failed."""
        looked = 0.0
        while True:
            audience.tell(lambda: self._tell(stop_run, self.run))
            if self._ctrl_c.pressed and not self.interrupted:
                self.interrupted = True
                self._tell(stop_run, self.run)
            states = {future.status for future in running.values()}
            if "error" in states:
                self._tell(abort_run, self.run, self.generations, "another member failed.")
                for future in running.values():
                    if future.status == "error":
                        error = future.exception()
                        if isinstance(error, KilledWorker):
                            return
                        raise error
            if states <= {"finished"} or "cancelled" in states or "lost" in states:
                audience.tell(lambda: None)
                if "cancelled" in states:
                    self.workers()
                return
            if any(future.status == "finished" and self._broken(future) for future in running.values()):
                return
            if time.monotonic() - looked > 0.5:
                looked = time.monotonic()
                if not set(running) <= self.workers():
                    return
            try:
                wait([future for future in running.values() if future.status == "pending"], timeout=0.1)
            except Exception:
                continue

    @staticmethod
    def _broken(future: Future) -> bool:
        try:
            return bool(future.result(timeout=10).reason)
        except Exception:
            return True

    def _last_words(self, running: dict[str, Future]) -> list[Future]:
        """Members that were told to leave say how far they came; those on lost workers say nothing."""
        until = time.monotonic() + 20.0
        while True:
            living = self.workers()
            late = [future for address, future in running.items() if future.status == "pending" and address in living]
            if not late or time.monotonic() > until:
                return [future for future in running.values() if future.status == "pending"]
            time.sleep(0.05)


class _Audience:
    """The user's callbacks, which are called here, in the thread of fit."""

    def __init__(self, client: Client, job: Job, callbacks: Sequence[Any]) -> None:
        self.client, self.callbacks = client, list(callbacks)
        self.topic = f"stagewise-{job.run}"
        self._told: queue.SimpleQueue[Stage] = queue.SimpleQueue()
        self._last = 0
        if self.callbacks:
            client.subscribe_topic(self.topic, lambda event: self._told.put(Stage(*event[1])))
            for callback in self.callbacks:
                if hasattr(callback, "on_start"):
                    callback.on_start(job.params.n_estimators, 0)

    def tell(self, stop: Callable[[], None]) -> None:
        """Pass on what has been heard; a callback that answers True stops training after the stage that runs now."""
        while self.callbacks and not self._told.empty():
            stage = self._told.get()
            if stage.number <= self._last:
                continue
            self._last = stage.number
            answers = [callback.on_stage(stage) for callback in self.callbacks if hasattr(callback, "on_stage")]
            if any(answer is True for answer in answers):
                stop()

    def end(self, history: History) -> None:
        for callback in self.callbacks:
            if hasattr(callback, "on_end"):
                callback.on_end(history)

    def close(self) -> None:
        if self.callbacks and self.client.status == "running":
            self.client.unsubscribe_topic(self.topic)
