"""An SQLite bag (.db3) that was cut off, or whose log was never taken in: what can be read, copied.

The bag itself is not touched: SQLite would write to it.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from .sqlite_pages import page_size, rows

# What SQLite leaves beside a file whose writer was killed: messages that are not in it yet, or what
# undoes half a transaction.
LOGS = ("-wal", "-journal")
_MESSAGES = "messages"


def logs_of(path: Path) -> list[Path]:
    """Logs beside a bag that were not taken in."""
    found = [path.with_name(path.name + suffix) for suffix in LOGS]
    return [log for log in found if log.exists() and log.stat().st_size]


def is_cut(path: Path) -> bool:
    """Whether the file is shorter than it says itself (sqlite.org/fileformat2.html, 1.3), or its
    last page not whole or of zeros, which a file system puts where nothing was written."""
    with path.open("rb") as stream:
        head = stream.read(32)
        if len(head) < 32:
            return True
        pages, size = int.from_bytes(head[28:32], "big"), page_size(head)
        found = path.stat().st_size
        if not pages or not size:
            return False  # SQLite says what is wrong with it
        stream.seek((pages - 1) * size)
        return found < pages * size or found % size > 0 or not any(stream.read(size))


def copy_whole_part(path: Path, folder: Path) -> tuple[Path, int, bool]:
    """Copy what can be read into a new file in ``folder``.

    Returns that, the number of its messages, and whether all were read. Raises OSError, and
    sqlite3.Error where not even the topics can be read.
    """
    logs = logs_of(path)
    if logs and not is_cut(path):
        copy = folder / path.name
        for item in (path, *logs):
            shutil.copyfile(item, folder / item.name)
        with closing(sqlite3.connect(copy)) as bag:
            # SQLite takes the log in, and its file goes.
            bag.execute("PRAGMA journal_mode = DELETE")
            (count,) = bag.execute(f"SELECT count(*) FROM {_MESSAGES}").fetchone()
        return copy, count, True
    return (*_copy_pages(path, folder), False)


def _copy_pages(path: Path, folder: Path) -> tuple[Path, int]:
    copy = folder / path.name
    # Immutable: without locks and logs, of which a damaged file has none.
    where = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    with (
        closing(sqlite3.connect(where, uri=True)) as bag,
        closing(sqlite3.connect(copy)) as new,
    ):
        # Not to refuse all of a file that is shorter than it says.
        bag.execute("PRAGMA writable_schema = ON")
        for name, definition in _tables(bag).items():
            new.execute(definition)
            if name != _MESSAGES:
                _copy(bag, new, name)
        topics = {number for (number,) in bag.execute("SELECT id FROM topics")}
        new.executemany(
            f"INSERT OR REPLACE INTO {_MESSAGES} VALUES (?, ?, ?, ?)", rows(path, topics)
        )
        new.execute(f"CREATE INDEX timestamp_idx ON {_MESSAGES} (timestamp ASC)")
        (count,) = new.execute(f"SELECT count(*) FROM {_MESSAGES}").fetchone()
        new.commit()
    return copy, count


def _tables(bag: sqlite3.Connection) -> dict[str, str]:
    rows = bag.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    # Where the schema is damaged these may be anything.
    texts = [(str(name), str(sql)) for name, sql in rows]
    found = {name: sql for name, sql in texts if not name.startswith("sqlite_")}
    if not all(sql.upper().startswith("CREATE TABLE") for sql in found.values()):
        raise sqlite3.DatabaseError("its tables are not known")
    if not {"topics", _MESSAGES} <= found.keys():
        raise sqlite3.DatabaseError("it has no topics")
    return found


def _copy(bag: sqlite3.Connection, new: sqlite3.Connection, table: str) -> None:
    rows = bag.execute(f'SELECT * FROM "{table}"').fetchall()
    if rows:
        new.executemany(f'INSERT INTO "{table}" VALUES ({",".join("?" * len(rows[0]))})', rows)
