"""The journal of a run: every visit is one committed row of SQLite, so a kill loses at most the visit under way.

Rows hold what was measured and nothing derived. Samples are a blob of little-endian float32: wall seconds, CPU seconds
and pre-empted (0 or 1), one row of the array each. What was measured beside the time is a JSON object of
numbers by name, with a string instead that says why there is none. The program of a point that has one is compressed
JSON in a table of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from medn.core.errors import StoreError
from medn.core.mistaken import told_instead
from medn.core.values import Condition, Layer, Measurement, Point, Samples, Visit, canonical_json, content_key, freeze

SCHEMA_VERSION = 4
READ_VERSIONS = (1, 2, 3, SCHEMA_VERSION)
"""The first had a column for each quantity, the second no `reference_runs`, the third no `state`. They are read as they
are, and rewritten as this one before visits are added to them, by who holds the lock of the run."""

JOURNAL_NAME = "measurements.sqlite"

_VISITS = """
CREATE TABLE visits (
    point_key TEXT NOT NULL REFERENCES points (key), pass_number INTEGER NOT NULL,
    environment_id TEXT NOT NULL REFERENCES environments (id), started_at REAL NOT NULL, elapsed_s REAL NOT NULL,
    status TEXT NOT NULL, reason TEXT NOT NULL, samples BLOB NOT NULL, calls_per_sample INTEGER NOT NULL,
    utilization_measured REAL, utilization_during REAL, reference_s REAL, output_error REAL,
    probes TEXT NOT NULL, quantities TEXT NOT NULL, reference_runs TEXT NOT NULL, state TEXT NOT NULL,
    UNIQUE (point_key, pass_number)
)
"""
_SCHEMA = (
    "CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE environments (id TEXT PRIMARY KEY, manifest TEXT NOT NULL) WITHOUT ROWID",
    """
CREATE TABLE points (
    key TEXT PRIMARY KEY, kind TEXT NOT NULL, device TEXT NOT NULL, layer TEXT NOT NULL, condition TEXT NOT NULL
) WITHOUT ROWID
""",
    _VISITS,
)

_PROGRAMS = "CREATE TABLE IF NOT EXISTS programs (point_key TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID"
"""Made with the first program that is kept, and read by nobody who does not ask for programs."""

_BLOCKS = (
    """
CREATE TABLE IF NOT EXISTS blocks (
    key TEXT PRIMARY KEY, device TEXT NOT NULL, content BLOB NOT NULL
) WITHOUT ROWID
""",
    """
CREATE TABLE IF NOT EXISTS block_visits (
    block_key TEXT NOT NULL REFERENCES blocks (key), started_at REAL NOT NULL, samples BLOB NOT NULL,
    UNIQUE (block_key, started_at)
)
""",
)
"""Blocks of models and what they took, made with the first of them, and read by nobody who does not ask for blocks."""

_PLAIN_FIELDS = (
    *("point_key", "pass_number", "environment_id", "started_at", "elapsed_s", "status", "reason"),
    *("utilization_measured", "utilization_during", "reference_s", "output_error"),
)
"""Fields of a visit that are columns as they are; the rest is packed."""

_KEPT_COLUMNS = ", ".join((*_PLAIN_FIELDS, "samples", "calls_per_sample", "probes"))
"""Those that every version has."""

_LATER_COLUMNS = "quantities, reference_runs, state"

_LATER = {
    1: "first_quantities(memory_bytes, memory_reason, energy_j, energy_reason), '{}', '{}'",
    2: "quantities, '{}', '{}'",
    3: "quantities, reference_runs, '{}'",
    4: _LATER_COLUMNS,
}
"""What gives the columns that later versions added in each version, as SQL."""

_VISIT_SLOTS = ", ".join("?" * len(f"{_KEPT_COLUMNS}, {_LATER_COLUMNS}".split(", ")))


@dataclass(frozen=True)
class MeasuredBlock:
    """A block of a model on a device, as it was timed."""

    device: str
    content: Mapping[str, Any]
    """All that is to be known of it, as plain values."""

    @property
    def key(self) -> str:
        return content_key([self.device, self.content])


@dataclass(frozen=True, eq=False)
class BlockVisit:
    """One stay at a block, with every raw sample."""

    started_at: float
    samples: Samples


@dataclass(frozen=True)
class StoreState:
    """Which visits there were at some moment: they are only ever added."""

    visits: int = 0
    """Or rows, where tables are all that was kept."""
    last: str = ""
    """Made from the last of them."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Store:
    """The measurements of one run, opened for as long as the `with` block lasts.

    >>> import tempfile
    >>> with Store(Path(tempfile.mkdtemp()) / "measurements.sqlite") as store:
    ...     store.visited()
    {}
    """

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        self.path = path
        self.must_exist = must_exist

    def __enter__(self) -> Store:
        if self.must_exist and not self.path.is_file():
            run = self.path.parent
            instead = told_instead(run) if run.is_dir() and any(run.iterdir()) else ""
            raise StoreError(f"{run} holds no measurements yet. Make them with: medn sweep CONFIG{instead}")
        with self._explained():
            if self.must_exist and not all(os.access(path, os.W_OK) for path in (self.path, self.path.parent)):
                self._connection = self._opened_to_read()
                self._check_version()
                self._read_first_version()
                return self
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"cannot make the run folder {self.path.parent}: {error.strerror}") from None
            self._connection = sqlite3.connect(self.path, timeout=10, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            # With WAL, NORMAL survives every crash of the process; only a power cut can cost the last rows.
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._make()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _opened_to_read(self) -> sqlite3.Connection:
        """A journal that may not be written, and so neither locked nor given an index of its write-ahead log."""
        address = self.path.resolve().as_uri()
        log = self.path.with_name(f"{self.path.name}-wal")
        if not log.exists() or not log.stat().st_size:  # nobody is writing, and nothing is left to be read from the log
            return sqlite3.connect(f"{address}?immutable=1", uri=True, isolation_level=None)
        try:
            connection = sqlite3.connect(f"{address}?mode=ro", uri=True, isolation_level=None)
            connection.execute("PRAGMA user_version").fetchone()
            return connection
        except sqlite3.OperationalError:  # no index of the log is there: make one beside a copy
            with tempfile.TemporaryDirectory(prefix="medn-") as folder:
                for file in (self.path, log):
                    shutil.copyfile(file, Path(folder) / file.name)
                with closing(sqlite3.connect(Path(folder) / self.path.name)) as copy:
                    connection = sqlite3.connect(":memory:", isolation_level=None)
                    copy.backup(connection)
            return connection

    def _make(self) -> None:
        """What an empty file lacks; of an earlier version, what it had otherwise, if visits may be added."""
        if self._version() == 0:
            with self._transaction():
                for statement in _SCHEMA:
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        self._check_version()
        self._read_first_version()
        if self._version() < SCHEMA_VERSION and not self.must_exist:
            self._rewrite_visits()

    def _rewrite_visits(self) -> None:
        """All of it or nothing, so that a kill or a full disk leaves the journal as it was."""
        with self._transaction():
            self._connection.execute("ALTER TABLE visits RENAME TO former_visits")
            self._connection.execute(_VISITS)
            self._connection.execute(
                f"INSERT INTO visits ({_KEPT_COLUMNS}, {_LATER_COLUMNS}) "
                f"SELECT {_KEPT_COLUMNS}, {_LATER[self._version()]} FROM former_visits ORDER BY rowid"
            )
            self._connection.execute("DROP TABLE former_visits")
            self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _read_first_version(self) -> None:
        self._connection.create_function("first_quantities", 4, _first_quantities, deterministic=True)

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def _check_version(self) -> None:
        if (version := self._version()) not in READ_VERSIONS:
            raise StoreError(
                f"{self.path} has schema {version}, this medn reads schema {SCHEMA_VERSION}. "
                f"Use the medn that wrote it, or start a new run with --run"
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite says into a sentence that names the fix."""
        try:
            yield
        except sqlite3.Error as error:
            said = str(error).lower()
            if "full" in said:
                fix = "the disk is full. Free some space and run the same command again; what is committed is safe"
            elif "readonly" in said or "unable to open" in said:
                fix = "it cannot be written. Mend its permissions, or choose another folder with --run"
            elif "locked" in said:
                fix = "another process is writing to it. Wait for that one, or choose another folder with --run"
            elif "not a database" in said or "malformed" in said:
                fix = "it is not a medn journal, or it is damaged. Choose another folder with --run"
            else:
                fix = f"SQLite says: {error}"
            raise StoreError(f"{self.path}: {fix}") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._explained():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _rows(self, query: str, *values: object) -> Iterator[Any]:
        with self._explained():
            yield from self._connection.execute(query, values)

    # What is written.

    def add_environment(self, environment_id: str, manifest: Mapping[str, Any]) -> None:
        with self._transaction():
            self._connection.execute(
                "INSERT OR IGNORE INTO environments VALUES (?, ?)", (environment_id, canonical_json(manifest))
            )

    def note(self, name: str, value: object) -> None:
        """Keep a fact about the run: its config, the definition of its target."""
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, canonical_json(value)))

    def record(self, entries: Iterable[tuple[Point, Visit]]) -> None:
        """Commit visits, all of them or none. A visit that is already there stays as it is, unless it was lost."""
        with self._transaction():
            for point, visit in entries:
                self._connection.execute(
                    "INSERT OR IGNORE INTO points VALUES (?, ?, ?, ?, ?)",
                    (
                        point.key,
                        point.layer.kind,
                        point.device,
                        canonical_json(point.layer.values),
                        canonical_json(point.condition.said),
                    ),
                )
                if visit.status != "lost":
                    self._connection.execute(
                        "DELETE FROM visits WHERE point_key = ? AND pass_number = ? AND status = 'lost'",
                        (point.key, visit.pass_number),
                    )
                self._connection.execute(
                    f"INSERT OR IGNORE INTO visits ({_KEPT_COLUMNS}, {_LATER_COLUMNS}) VALUES ({_VISIT_SLOTS})",
                    _visit_to_row(visit),
                )
                if visit.program:
                    self._keep_program(point.key, visit.program)

    def _keep_program(self, point_key: str, program: Mapping[str, Any]) -> None:
        self._connection.execute(_PROGRAMS)
        packed = zlib.compress(canonical_json(program).encode())
        self._connection.execute("INSERT OR IGNORE INTO programs VALUES (?, ?)", (point_key, packed))

    def record_blocks(self, entries: Iterable[tuple[MeasuredBlock, BlockVisit]]) -> None:
        """Commit visits to blocks, all of them or none. One that is already there stays as it is."""
        with self._transaction():
            for block, visit in entries:
                for statement in _BLOCKS:
                    self._connection.execute(statement)
                packed = zlib.compress(canonical_json(block.content).encode())
                self._connection.execute(
                    "INSERT OR IGNORE INTO blocks VALUES (?, ?, ?)", (block.key, block.device, packed)
                )
                self._connection.execute(
                    "INSERT OR IGNORE INTO block_visits VALUES (?, ?, ?)",
                    (block.key, visit.started_at, _packed_samples(visit.samples)),
                )

    def move_visits(self, environment_id: str, device: str, to: str) -> int:
        """Have the visits to a device that were made in an environment count as those to another; how many they are.

        All of them or none. They are due again on the device that they were made for.
        """
        query = (
            "SELECT DISTINCT key, kind, layer, condition FROM points JOIN visits ON key = point_key "
            "WHERE environment_id = ? AND device = ?"
        )
        moved = 0
        with self._transaction():
            read = _condition_reader()
            programs = dict(self.programs())
            for key, kind, layer, condition in list(self._connection.execute(query, (environment_id, device))):
                point = Point(Layer(kind, freeze(json.loads(layer))), read(condition), to)
                self._connection.execute(
                    "INSERT OR IGNORE INTO points VALUES (?, ?, ?, ?, ?)", (point.key, kind, to, layer, condition)
                )
                if key in programs:
                    self._keep_program(point.key, programs[key])
                moved += self._connection.execute(
                    "UPDATE OR IGNORE visits SET point_key = ? WHERE point_key = ? AND environment_id = ?",
                    (point.key, key, environment_id),
                ).rowcount
            self._connection.execute("DELETE FROM points WHERE key NOT IN (SELECT point_key FROM visits)")
        return moved

    # What is read.

    def read_note(self, name: str) -> Any:
        """A kept fact; None where there is none of that name."""
        rows = list(self._rows("SELECT value FROM notes WHERE name = ?", name))
        return json.loads(rows[0][0]) if rows else None

    def environments(self) -> dict[str, dict[str, Any]]:
        """The environments that measurements were made in."""
        query = "SELECT id, manifest FROM environments WHERE id IN (SELECT DISTINCT environment_id FROM visits)"
        return {row[0]: json.loads(row[1]) for row in self._rows(query)}

    def devices_by_environment(self) -> dict[str, set[str]]:
        """The devices that were visited in each environment."""
        query = "SELECT DISTINCT environment_id, device FROM visits JOIN points ON key = point_key"
        devices: dict[str, set[str]] = {}
        for environment, device in self._rows(query):
            devices.setdefault(environment, set()).add(device)
        return devices

    def devices_and_kinds(self) -> set[tuple[str, str]]:
        """Every device and kind that was visited."""
        return set(self._rows("SELECT DISTINCT device, kind FROM visits JOIN points ON key = point_key"))

    def points_in(self, environment_ids: Iterable[str]) -> set[str]:
        """The keys of the points that were visited in any of these environments."""
        query = "SELECT DISTINCT point_key FROM visits WHERE environment_id = ?"
        return {row[0] for each in environment_ids for row in self._rows(query, each)}

    def state(self) -> StoreState:
        """What tells the visits there are now from those of any other moment, found without reading them."""
        query = "SELECT point_key, pass_number, started_at FROM visits ORDER BY rowid DESC LIMIT 1"
        count = int(next(self._rows("SELECT COUNT(*) FROM visits"))[0])
        return StoreState(count, content_key([list(row) for row in self._rows(query)]))

    def measuring_s(self) -> float:
        """How long all visits took together; 0 for imported ones."""
        return float(next(self._rows("SELECT TOTAL(elapsed_s) FROM visits"))[0])

    def last_visit_at(self) -> float | None:
        """When the latest visit began, in seconds since 1970; None without any."""
        latest = next(self._rows("SELECT MAX(started_at) FROM visits"))[0]
        return None if latest is None else float(latest)

    def visited(self) -> dict[str, dict[int, str]]:
        """For each point the status of every pass over it so far; a visit that was lost is still to be made."""
        found: dict[str, dict[int, str]] = {}
        for key, pass_number, status in self._rows(
            "SELECT point_key, pass_number, status FROM visits WHERE status != 'lost'"
        ):
            found.setdefault(key, {})[pass_number] = status
        return found

    def statuses(self, point_key: str) -> dict[int, str]:
        """The status of every pass over one point, but of those that were lost."""
        query = "SELECT pass_number, status FROM visits WHERE point_key = ? AND status != 'lost'"
        return dict(self._rows(query, point_key))

    def conditions(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Kind, device and circumstances of every visit, probes among them, without reading any samples."""
        query = "SELECT kind, device, condition, probes FROM visits JOIN points ON key = point_key"
        read = _condition_reader()
        for kind, device, condition, probes in self._rows(query):
            yield kind, device, read(condition).values | json.loads(probes)

    def programs(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The tensor programs that were measured, each with the key of its point."""
        if list(self._rows("SELECT 1 FROM sqlite_master WHERE name = 'programs'")):
            for key, content in self._rows("SELECT point_key, content FROM programs ORDER BY point_key"):
                yield key, json.loads(zlib.decompress(content))

    def blocks(self) -> Iterator[tuple[MeasuredBlock, tuple[BlockVisit, ...]]]:
        """The blocks of models that were timed, in the order in which they were kept, with all visits to each."""
        if not list(self._rows("SELECT 1 FROM sqlite_master WHERE name = 'block_visits'")):
            return
        query = (
            "SELECT key, device, content, started_at, samples FROM block_visits JOIN blocks ON key = block_key "
            "ORDER BY block_visits.rowid"
        )
        visits: dict[str, list[BlockVisit]] = {}
        blocks: dict[str, MeasuredBlock] = {}
        for key, device, content, started_at, samples in self._rows(query):
            if key not in blocks:
                blocks[key] = MeasuredBlock(device, json.loads(zlib.decompress(content)))
            visits.setdefault(key, []).append(BlockVisit(started_at, _unpacked_samples(samples)))
        for key, block in blocks.items():
            yield block, tuple(visits[key])

    def measurements(self, kind: str | None = None) -> Iterator[Measurement]:
        """Every point with all its visits, in the order of passes."""
        columns = f"{_KEPT_COLUMNS}, {_LATER[self._version()]}"
        query = (
            f"SELECT kind, device, layer, condition, {columns} FROM visits JOIN points ON key = point_key "
            "WHERE ? IS NULL OR kind = ? ORDER BY kind, device, key, pass_number"
        )
        read = _condition_reader()
        for head, rows in groupby(self._rows(query, kind, kind), key=lambda row: row[:4]):
            point = Point(Layer(head[0], freeze(json.loads(head[2]))), read(head[3]), head[1])
            yield Measurement(point, tuple(_visit_from_row(row[4:]) for row in rows))


def _condition_reader() -> Callable[[str], Condition]:
    """Reads conditions as the journal holds them; many points share one, so each is checked once."""
    return cache(lambda written: Condition(**json.loads(written)))


def _packed_samples(samples: Samples) -> bytes:
    return np.array([samples.wall_s, samples.cpu_s, samples.preempted], dtype="<f4").tobytes()


def _unpacked_samples(packed: bytes, calls_per_sample: int = 1) -> Samples:
    wall_s, cpu_s, preempted = np.frombuffer(packed, dtype="<f4").reshape(3, -1).astype(np.float64)
    return Samples(wall_s, cpu_s, preempted > 0, calls_per_sample)


def _visit_to_row(visit: Visit) -> tuple[object, ...]:
    plain = (getattr(visit, name) for name in _PLAIN_FIELDS)
    packed = (
        canonical_json(dict(each)) for each in (visit.probes, visit.quantities, visit.reference_runs, visit.state)
    )
    return (*plain, _packed_samples(visit.samples), visit.samples.calls_per_sample, *packed)


def _visit_from_row(row: tuple[Any, ...]) -> Visit:
    *plain, samples, calls_per_sample, probes, quantities, reference_runs, state = row
    return Visit(
        **dict(zip(_PLAIN_FIELDS, plain, strict=True)),
        samples=_unpacked_samples(samples, calls_per_sample),
        probes=json.loads(probes),
        quantities=json.loads(quantities),
        reference_runs=json.loads(reference_runs),
        state=json.loads(state),
    )


def _first_quantities(memory_bytes: int | None, memory_reason: str, energy_j: float | None, energy_reason: str) -> str:
    """What the four columns of the first version say, as the one column of this version does."""
    found = {
        "memory_bytes": memory_reason if memory_bytes is None else memory_bytes,
        "energy_j": energy_reason if energy_j is None else energy_j,
    }
    return canonical_json({name: value for name, value in found.items() if value != ""})
