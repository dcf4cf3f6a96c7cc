"""Workers started on hosts over SSH, for the life of one sweep.

The scheduler is in this process, and takes no connection without a certificate made for this sweep; a worker
is given its own through SSH, on standard input. When that closes (the sweep ended, this process was killed,
the line broke) the worker ends with what it runs. `distributed.SSHCluster` gives every worker the same board.
"""

import asyncio
import json
import shlex
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from os.path import expanduser
from typing import Any

from hipbook.errors import HipbookError
from hipbook.sweep.many_hosts import DaskEngine
from hipbook.sweep.offers import Offer
from hipbook.sweep.spec import Host, ManyHosts
from hipbook.sweep.worker import SETTINGS, TLS

CONNECT_TIMEOUT_S = 30.0


@dataclass
class _Started:
    """A worker's process on a host, and the end of what it said."""

    host: Host
    board: str
    process: Any
    said: list[str] = field(default_factory=list)

    def fault(self) -> str:
        """Why it is no longer there; empty while it is."""
        if self.process.exit_status is None and not self.process.is_closing():
            return ""
        last = self.said[-1] if self.said else "no word"
        return f"{self.host.address}, {self.board}: its worker ended ({self.process.exit_status}): {last}"


class _SshEngine(DaskEngine):
    """Says why a worker did not come up, where that is known."""

    workers: list[_Started]

    def _hopeless(self) -> bool:
        return any(one.fault() for one in self.workers)

    def offers(self, wanted: Sequence[str]) -> list[Offer]:
        offered = super().offers(wanted)
        if self.at_once < len(self.workers):
            faults = [one.fault() for one in self.workers]
            told = "; ".join(filter(None, faults)) or f"{self.at_once} of {len(self.workers)} are there"
            raise HipbookError(
                f"workers that did not come up: {told}", fix="`hipbook sweep worker` there says more"
            )
        return offered


def started(told: ManyHosts) -> DaskEngine:
    """An engine with a worker for each board of each host. Raises HipbookError, leaving nothing running."""
    import dask
    from distributed import Client, LocalCluster, Security

    dask.config.set(SETTINGS)
    security = Security.temporary()
    loop = _Loop()
    cluster = LocalCluster(
        n_workers=0, processes=False, host="0.0.0.0", security=security, dashboard_address=None,
        scheduler_port=0, silence_logs=40,
    )  # fmt: skip
    connections: list[Any] = []

    def close() -> None:
        loop.run(_close(connections))
        cluster.close(timeout=10)
        loop.stop()

    try:
        port = int(cluster.scheduler_address.rpartition(":")[2])
        workers = [one for host in told.hosts for one in loop.run(_start(host, port, security, connections))]
        client = Client(cluster, security=security, set_as_default=False)
    except BaseException:
        close()
        raise
    engine = _SshEngine(client, told.workers_wait_s, len(workers), close)
    engine.workers = workers
    return engine


async def _start(host: Host, port: int, security: Any, connections: list[Any]) -> list[_Started]:
    """Connect to a host and start its workers."""
    import asyncssh

    options: dict[str, Any] = {"port": host.port}
    options |= {"username": host.user} if host.user else {}
    options |= {"client_keys": [expanduser(host.key)]} if host.key else {}
    options |= {"known_hosts": expanduser(host.known_hosts)} if host.known_hosts else {}
    try:
        connection = await asyncssh.connect(host.address, connect_timeout=CONNECT_TIMEOUT_S, **options)
    except (OSError, ValueError, asyncssh.Error) as error:
        raise HipbookError(
            f"{host.address}: no connection over SSH: {error}", fix=f"try `ssh -p {host.port} {host.address}`"
        ) from None
    connections.append(connection)
    here = connection.get_extra_info("sockname")[0]  # how this host is reached from there
    scheduler = f"tls://[{here}]:{port}" if ":" in here else f"tls://{here}:{port}"
    certificates = {name: getattr(security, name) for name in (*TLS, "tls_ca_file")}
    workers = []
    for board in host.boards:
        process = await connection.create_process(_command(host, scheduler, board))
        process.stdin.write(json.dumps(certificates) + "\n")
        one = _Started(host, board, process)
        asyncio.ensure_future(_listen(one))  # noqa: RUF006  (ends with the process)
        workers.append(one)
    return workers


def _command(host: Host, scheduler: str, board: str) -> str:
    environment = dict(host.environment) | ({"HIPBOOK_ROOT": host.root} if host.root else {})
    words = ["env", *(f"{name}={value}" for name, value in environment.items()), host.python, "-m", "hipbook"]
    return shlex.join([*words, "sweep", "worker", scheduler, "--board", board, "--stdin"])


async def _listen(one: _Started) -> None:
    async for line in one.process.stderr:
        one.said = [*one.said[-20:], line.rstrip()]


async def _close(connections: list[Any]) -> None:
    for connection in connections:
        connection.close()
    for connection in connections:
        await connection.wait_closed()


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, coroutine: Coroutine) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
