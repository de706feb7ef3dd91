"""How workers talk while they train: one-way messages through Dask's own connections, TLS and all.

A worker's server passes messages with the operation "stagewise" to `Mailboxes.deliver`, in the thread of its event
loop; the thread that trains waits for them. Members of one fit are numbered; a fit that had to begin again after a
loss has a new generation, and what still arrives for an old one is dropped.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from distributed import Worker
from distributed.comm import connect
from distributed.protocol import to_serialize

from stagewise.dask.lines import Lines
from stagewise.errors import ClusterError
from stagewise.kernels.reducer import Reducer

__all__ = ["ClusterReducer", "abort_run", "forget_run", "mailboxes", "open_mailboxes", "stop_run"]

_LOOK = 0.5
"""Seconds between two looks at whether there is still something to wait for."""

_SILENCE = 600.0
"""Seconds without any message after which a member gives up; the client notices a dead worker far sooner."""

Key = tuple[str, int]


class Mailbox:
    """What has arrived for one member in one generation."""

    def __init__(self) -> None:
        self.arrived: dict[tuple[int, int], tuple[np.ndarray, bool]] = {}
        self.broken: str | None = None
        self.stop = False  # the client asks to end after this stage
        self.changed = threading.Condition()

    def put(self, number: int, source: int, data: np.ndarray, stop: bool) -> None:
        with self.changed:
            self.arrived[number, source] = data, stop
            self.changed.notify_all()

    def abort(self, reason: str) -> None:
        with self.changed:
            self.broken = self.broken or reason
            self.changed.notify_all()


class Mailboxes:
    """The mailboxes of a worker."""

    def __init__(self) -> None:
        self._boxes: dict[Key, Mailbox] = {}
        self._over: dict[str, tuple[int, str]] = {}  # of each run: generations up to this one are over, and why
        self._lock = threading.Lock()

    def box(self, run: str, generation: int) -> Mailbox:
        with self._lock:
            box = self._boxes.setdefault((run, generation), Mailbox())
            last, reason = self._over.get(run, (-1, ""))
            if generation <= last:
                box.abort(reason)
            return box

    def deliver(self, run: str, generation: int, source: int, number: int, stop: bool, data: np.ndarray) -> None:
        if generation > self._over.get(run, (-1, ""))[0]:
            self.box(run, generation).put(number, source, data, stop)

    def abort(self, run: str, generation: int, reason: str) -> None:
        """Generations up to this one are over."""
        with self._lock:
            if generation >= self._over.get(run, (-1, ""))[0]:
                self._over[run] = generation, reason
            for (own, number), box in list(self._boxes.items()):
                if own == run and number <= generation:
                    box.abort(reason)
                    del self._boxes[own, number]

    def stop(self, run: str) -> None:
        with self._lock:
            for (own, _), box in self._boxes.items():
                if own == run:
                    box.stop = True

    def forget(self, run: str) -> None:
        self.abort(run, 1 << 60, "The fit is over.")
        if len(self._over) > 1000:  # late messages of old runs are rare; their names need not be kept for ever
            with self._lock:
                self._over = dict(list(self._over.items())[-100:])


def mailboxes(worker: Worker) -> Mailboxes:
    """Those of a worker, made on first use."""
    boxes = getattr(worker, "_stagewise", None)
    if boxes is None:
        boxes = worker._stagewise = Mailboxes()
        worker.handlers["stagewise"] = boxes.deliver
    return boxes


def open_mailboxes(dask_worker: Worker) -> None:
    """Before anybody writes: a message that a worker does not know would be lost."""
    mailboxes(dask_worker)


def abort_run(run: str, generation: int, reason: str, dask_worker: Worker) -> None:
    mailboxes(dask_worker).abort(run, generation, reason)


def stop_run(run: str, dask_worker: Worker) -> None:
    mailboxes(dask_worker).stop(run)


def forget_run(run: str, dask_worker: Worker) -> None:
    mailboxes(dask_worker).forget(run)


class ClusterReducer(Reducer):
    """A member of a fit on a cluster."""

    def __init__(
        self, worker: Worker, run: str, generation: int, members: Sequence[str], wanted: Callable[[], bool]
    ) -> None:
        """members: addresses of all workers that take part. wanted: whether somebody still waits for the result."""
        super().__init__()
        self.worker, self.run, self.generation, self.members = worker, run, generation, list(members)
        self.size, self.rank = len(members), list(members).index(worker.address)
        self.wanted = wanted
        self.box = mailboxes(worker).box(run, generation)
        self.bytes_sent = 0
        self._number, self._stopped, self._looked = 0, False, 0.0
        self._comms: dict[str, Any] = {}
        self._lines: Lines | None = None
        self._sending: Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop = worker.loop.asyncio_loop

    def open_lines(self) -> str:
        """Talk directly from now on, if all members can; through Dask's connections otherwise. What came of it."""
        if self.size == 1:
            return "dask"
        lines = Lines(self.worker, self.run, self.generation, self.rank, self.size, _LOOK)
        cards = [own.copy() for own in self.gather(lines.card())]
        ports = [int(card[0]) for card in cards]
        works = min(ports) > 0 and lines.open(self.members, ports, lambda: self._check(self.box.broken))
        found = [own.copy() for own in self.gather(np.append(lines.find_shelves(cards), int(works)))]
        if all(own[-1] for own in found):
            lines.keep_shelves(found)
            self._lines = lines
            return "memory" if all(own[:-1].sum() == self.size - 1 for own in found) else "direct"
        lines.close()
        return "dask"

    def room(self, rank: int, size: int) -> np.ndarray:
        own = None if self._lines is None else self._lines.room(self._number + 1, rank, size)
        return super().room(rank, size) if own is None else own

    def exchange(self, outgoing: Sequence[np.ndarray]) -> list[np.ndarray]:
        now = time.monotonic()
        if now - self._looked > _LOOK:  # members that never wait long must notice too that nobody waits for them
            self._looked = now
            self._check(self.box.broken)
        self._number += 1
        number, stop = self._number, self.box.stop
        self._flush()
        others = [(self.rank - step) % self.size for step in range(1, self.size)]
        self.bytes_sent += sum(outgoing[rank].nbytes for rank in others)
        lines, incoming = self._lines, list(outgoing)
        if lines is not None:
            lines.send(number, stop, outgoing)
        else:
            self._sending = asyncio.run_coroutine_threadsafe(self._send(number, stop, outgoing), self._loop)
        for rank in others:
            if lines is not None:
                incoming[rank], asked = lines.receive(number, rank, lambda: self._check(self.box.broken))
            else:
                incoming[rank], asked = self._receive(number, rank)
            stop |= asked
        self._stopped |= stop
        return incoming

    @property
    def stopped(self) -> bool:
        if self.size == 1:  # nothing is exchanged
            self._check(self.box.broken)
            return self.box.stop
        return self._stopped

    def _receive(self, number: int, source: int) -> tuple[np.ndarray, bool]:
        box, began = self.box, time.monotonic()
        with box.changed:
            while (number, source) not in box.arrived:
                self._check(box.broken)
                if time.monotonic() - began > _SILENCE:
                    self._check(f"{self.members[source]} has been silent for {_SILENCE:.0f} seconds.")
                box.changed.wait(_LOOK)
            return box.arrived.pop((number, source))

    def _check(self, broken: str | None) -> None:
        if broken is None and self.worker.status.name not in ("running", "paused"):
            broken = f"worker {self.worker.address} is closing."
        if broken is None and not self.wanted():
            broken = "nobody waits for the model any more."
        if broken is not None:
            raise ClusterError(broken)

    def _flush(self) -> None:
        """The messages of the last exchange are on their way; messages to a member keep their order."""
        sending, self._sending = self._sending, None
        while sending is not None:
            try:
                sending.result(_LOOK)
                return
            except TimeoutError:
                self._check(self.box.broken)

    async def _send(self, number: int, stop: bool, outgoing: Sequence[np.ndarray]) -> None:
        async def to(rank: int) -> None:
            address = self.members[rank]
            try:
                comm = self._comms.get(address)
                if comm is None:
                    comm = self._comms[address] = await connect(address, **self.worker.connection_args)
                message = {
                    "op": "stagewise", "reply": False, "run": self.run, "generation": self.generation,
                    "source": self.rank, "number": number, "stop": stop, "data": to_serialize(outgoing[rank]),
                }  # fmt: skip
                await comm.write(message)
            except (OSError, TimeoutError) as error:
                self.box.abort(f"the connection to worker {address} is lost ({type(error).__name__}).")

        await asyncio.gather(*(to(rank) for rank in range(self.size) if rank != self.rank))

    def cut(self) -> None:
        """Something has failed: whoever waits for us is to know at once."""
        if self._lines is not None:
            self._lines.cut()

    def close(self) -> None:
        """Hang up, after everything has been sent."""

        async def hang_up() -> None:
            for comm in self._comms.values():
                await comm.close()

        if self._lines is not None:
            self._lines.close()
        try:
            self._flush()
            asyncio.run_coroutine_threadsafe(hang_up(), self._loop)
        except ClusterError:
            for comm in self._comms.values():
                self._loop.call_soon_threadsafe(comm.abort)
