"""Direct lines between members: one socket for each direction, with the certificates that Dask was given. Members on
one machine lay their messages on shelves (shelf.py) instead, unless there are certificates, and sockets wake sleepers.

An exchange between two workers through Dask's own connections takes 1.0 ms, and 5.2 ms with 1.6 MB, because the event
loop has to take turns with the thread that trains. Here that thread reads by itself, and a second one sends, both
without holding up Python: 0.1 ms and 1.3 ms. Whose process dies is known at once: its lines are cut.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence

import numpy as np
from distributed import Worker
from distributed.comm.addressing import get_address_host, parse_address

from stagewise.dask.shelf import Shelf, place
from stagewise.errors import ClusterError

__all__ = ["Lines"]

_HEAD = struct.Struct("<IB1sQ")  # number of the exchange, stop flag, kind of array, bytes
_HELLO = struct.Struct("<32sII")  # run, generation, rank
_TIMEOUT = 10.0
"""Seconds for a connection to be made."""

_LOOKS = 5000
"""How often a shelf is looked at before its reader goes to sleep, the core being given away in between: some 3 ms. (Two
workers on two cores, a fit: 4.5 s with 100 looks, 4.0 with 1,000, 3.6 with 5,000, 3.7 with 20,000; four workers there:
6.0, 5.5, 5.4, 6.0.)"""

Check = Callable[[], None]


class Lines:
    """This member's lines to all others. `check` is called at least twice a second while something is waited for; it
    raises ClusterError when there is nothing to wait for any more."""

    def __init__(self, worker: Worker, run: str, generation: int, rank: int, size: int, look: float) -> None:
        self.rank, self.size, self._look = rank, size, look
        self._hello = run.encode(), generation
        self._listen = worker.security.get_listen_args("worker").get("ssl_context")
        self._connect = worker.connection_args.get("ssl_context")
        scheme, _ = parse_address(worker.address)
        self.port, self._server = 0, None
        self._in: dict[int, socket.socket] = {}
        self._out: dict[int, socket.socket] = {}
        self._room: dict[int, np.ndarray] = {}
        self._shelves: dict[int, Shelf] = {}  # to and from members on this machine
        self._shelves_in: dict[int, Shelf] = {}
        self._jobs: queue.SimpleQueue[tuple[int, bool, Sequence[np.ndarray]] | None] = queue.SimpleQueue()
        self._sending = False
        self.failed: str | None = None
        if scheme in ("tcp", "tls"):
            with contextlib.suppress(OSError):
                self._server = socket.create_server((get_address_host(worker.address), 0), backlog=size)
                self._server.settimeout(look)
                self.port = self._server.getsockname()[1]

    def card(self) -> np.ndarray:
        """What the others must know: the port, where this process is, and its shelf for each of them."""
        here, shelves = place() if self._connect is None else 0, [-1] * self.size
        with contextlib.suppress(OSError):
            for peer in range(self.size):
                if here and peer != self.rank:
                    self._shelves[peer] = Shelf(self._name(self.rank, peer))
                    shelves[peer] = self._shelves[peer].descriptor
        return np.array([self.port, here, os.getpid(), *shelves], np.int64)

    def _name(self, source: int, to: int) -> str:
        run, generation = self._hello
        return f"stagewise-{run.decode()}-{generation}-{source}-{to}"

    def find_shelves(self, cards: Sequence[np.ndarray]) -> np.ndarray:
        """Open what the others have made for this member; of whom that worked, int64 (size)."""
        own = cards[self.rank]
        for peer, (_, here, process, *shelves) in enumerate(card.tolist() for card in cards):
            if peer != self.rank and here == own[1] != 0 and shelves[self.rank] >= 0:
                found = Shelf.of(process, shelves[self.rank], self._name(peer, self.rank))
                if found is not None:
                    self._shelves_in[peer] = found
        return np.array([peer in self._shelves_in for peer in range(self.size)], np.int64)

    def keep_shelves(self, found: Sequence[np.ndarray]) -> None:
        """found: what `find_shelves` returned to each member. Only shelves that are looked at are used."""
        for peer in list(self._shelves):
            if not found[peer][self.rank]:
                self._shelves.pop(peer).close()

    def room(self, number: int, peer: int, size: int) -> np.ndarray | None:
        """Where message `number` to a member can be written without being copied later, if there is such a place."""
        return self._shelves[peer].room(number, size) if peer in self._shelves else None

    def open(self, addresses: list[str], ports: list[int], check: Check) -> bool:
        """Connect to everyone at these ports, and wait until everyone has connected; whether that worked."""
        assert self._server is not None
        accepting = threading.Thread(target=self._accept, args=(check,), daemon=True)
        accepting.start()
        try:
            for step in range(1, self.size):
                peer = (self.rank + step) % self.size
                made = socket.create_connection((get_address_host(addresses[peer]), ports[peer]), _TIMEOUT)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._connect is not None:
                    made = self._connect.wrap_socket(made, server_hostname=get_address_host(addresses[peer]))
                made.sendall(_HELLO.pack(*self._hello, self.rank))
                made.settimeout(None)
                self._out[peer] = made
        except (OSError, ssl.SSLError):
            return False
        finally:
            accepting.join(2.0 * _TIMEOUT)
        if len(self._in) < self.size - 1:
            return False
        self._sending = True
        threading.Thread(target=self._send, daemon=True, name="stagewise-send").start()
        return True

    def _accept(self, check: Check) -> None:
        server = self._server
        assert server is not None
        with contextlib.suppress(ClusterError):
            for _ in range(int(2.0 * _TIMEOUT / self._look)):
                if len(self._in) == self.size - 1:
                    return
                check()
                try:
                    made, _ = server.accept()
                    made.settimeout(_TIMEOUT)
                    if self._listen is not None:
                        made = self._listen.wrap_socket(made, server_side=True)
                    hello = bytearray(_HELLO.size)
                    self._fill(made, memoryview(hello), check)
                except (OSError, ssl.SSLError):
                    continue
                *who, rank = _HELLO.unpack(hello)
                if tuple(who) == self._hello and 0 <= rank < self.size:
                    made.settimeout(self._look)
                    self._in[rank] = made
                else:  # somebody else
                    made.close()

    def send(self, number: int, stop: bool, outgoing: Sequence[np.ndarray]) -> None:
        """outgoing[k] to member k, by and by."""
        for peer, shelf in self._shelves.items():
            if shelf.send(number, stop, outgoing[peer]):
                with contextlib.suppress(OSError):  # one who does not live is noticed when his answer is waited for
                    self._out[peer].send(b"!")
        if len(self._shelves) < self.size - 1:
            self._jobs.put((number, stop, outgoing))

    def _send(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                self._send_all(*job)
                del job  # an idle thread must not keep the arrays of the last exchange alive
        except OSError as error:
            self.failed = f"a line is cut ({type(error).__name__})."
        finally:
            for own in self._out.values():
                own.close()

    def _send_all(self, number: int, stop: bool, outgoing: Sequence[np.ndarray]) -> None:
        for step in range(1, self.size):  # in this order nobody waits for one who waits for him
            peer = (self.rank + step) % self.size
            if peer in self._shelves:
                continue
            data = np.ascontiguousarray(outgoing[peer])
            self._out[peer].sendall(_HEAD.pack(number, stop, data.dtype.char.encode(), data.nbytes))
            self._out[peer].sendall(data.view(np.uint8).data)

    def receive(self, number: int, peer: int, check: Check) -> tuple[np.ndarray, bool]:
        """What a member has sent, good until the next call, and whether it was asked to stop."""
        if peer in self._shelves_in:
            return self._from_shelf(number, peer, check)
        head = bytearray(_HEAD.size)
        self._fill(self._in[peer], memoryview(head), check)
        sent, stop, kind, size = _HEAD.unpack(head)
        if sent != number:
            raise ClusterError(f"member {peer} is at exchange {sent}, not {number}.")
        room = self._room.get(peer)
        if room is None or len(room) < size:  # fresh memory costs more than the journey
            room = self._room[peer] = np.empty(size + size // 4, np.uint8)
        data = room[:size]
        self._fill(self._in[peer], data.data, check)
        return data.view(np.dtype(kind.decode())), bool(stop)

    def _from_shelf(self, number: int, peer: int, check: Check) -> tuple[np.ndarray, bool]:
        shelf, looks = self._shelves_in[peer], _LOOKS
        while not shelf.waits(number, looks):
            try:
                self._fill(self._in[peer], memoryview(bytearray(1)), check)
            except ClusterError:  # its last message may be there all the same
                if not shelf.waits(number, 1):
                    raise
            looks = 1
        return shelf.take(number)

    def _fill(self, source: socket.socket, into: memoryview, check: Check) -> None:
        at = 0
        while at < len(into):
            try:
                n = source.recv_into(into[at:])
            except TimeoutError:
                if self.failed is not None:
                    raise ClusterError(self.failed) from None
                check()
                continue
            except OSError as error:
                raise ClusterError(f"a line is cut ({type(error).__name__}).") from None
            if n == 0:
                raise ClusterError("a member has hung up.")
            at += n

    def cut(self) -> None:
        """Something has failed: nothing more leaves, also if a member does not listen."""
        for line in self._out.values():
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up; what was sent still leaves."""
        self._jobs.put(None)
        if not self._sending:
            for own in self._out.values():
                own.close()
        for line in self._in.values():
            line.close()
        for shelf in (*self._shelves.values(), *self._shelves_in.values()):
            shelf.close()
        if self._server is not None:
            self._server.close()
