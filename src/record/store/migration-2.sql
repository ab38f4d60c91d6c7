-- Never edited once released: later versions add a file. Units are in the names of the columns.

-- Who the run belongs to, by the kernel's word and not by the job's; NULL in an index over files.
ALTER TABLE run ADD COLUMN uid INTEGER;

-- The cgroup whose totals the samples are; NULL: sums over the processes.
ALTER TABLE node ADD COLUMN cgroup TEXT;

ALTER TABLE usage ADD COLUMN cpu_throttled_seconds REAL;
ALTER TABLE usage ADD COLUMN mem_oom_kills INTEGER;

-- What happened, oldest first.
CREATE TABLE event (
    node INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (node, place)
) STRICT, WITHOUT ROWID;

-- A GPU of a run: what it is, and how it was used. `mig` is 0 or 1, NULL where it cannot be divided.
CREATE TABLE gpu (
    node INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
    uuid TEXT NOT NULL,
    name TEXT NOT NULL,
    minor INTEGER,
    pci_bus_id TEXT,
    mem_total_bytes INTEGER,
    power_limit_watts INTEGER,
    sm_clock_max_mhz INTEGER,
    mig INTEGER,
    parent TEXT,
    driver TEXT,
    readings INTEGER NOT NULL,
    utilisation_mean_percent REAL,
    mem_peak_bytes INTEGER,
    energy_joules REAL,
    power_mean_watts REAL,
    temperature_peak_celsius INTEGER,
    sm_clock_mean_mhz REAL,
    throttled_seconds REAL NOT NULL,
    idle_seconds REAL NOT NULL,
    xid_errors INTEGER NOT NULL,
    PRIMARY KEY (node, uuid)
) STRICT, WITHOUT ROWID;

-- Names of series, once each: a column of a sample, or `gpu/UUID/COLUMN`.
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- Series in few figures, so that summaries open no block: of each 60 s and each 3600 s since 1970. The order of the key
-- puts what is written at once side by side. `sum` is REAL since integers would overflow.
CREATE TABLE rollup (
    node INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
    span_seconds INTEGER NOT NULL,
    t0_ms INTEGER NOT NULL,
    series INTEGER NOT NULL REFERENCES series (id),
    samples INTEGER NOT NULL,
    minimum INTEGER NOT NULL,
    maximum INTEGER NOT NULL,
    sum REAL NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (node, span_seconds, t0_ms, series)
) STRICT, WITHOUT ROWID;

-- What the rows of the spool hold, as JSON.
CREATE TABLE spool_columns (
    id INTEGER PRIMARY KEY,
    node INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
    names TEXT NOT NULL
) STRICT;

-- Samples that are in no block yet, in the order of their ids. A rowid table: the rows of a tick lie side by side, and
-- those of up to 4061 bytes fit into a page.
CREATE TABLE spool (
    id INTEGER PRIMARY KEY,
    node INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
    columns INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

-- What the node daemon watches. `state` is JSON of the daemon's own, `record` the node record.
CREATE TABLE live (
    node INTEGER PRIMARY KEY REFERENCES node (id) ON DELETE CASCADE,
    uid INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    start_time_ticks INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    state TEXT NOT NULL,
    record TEXT NOT NULL,
    acknowledged_seq INTEGER,
    last_at_ms INTEGER
) STRICT;
