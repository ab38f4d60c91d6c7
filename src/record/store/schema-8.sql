-- The tables as dlrun 0.1 had them. Units are in the names of the columns.

CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    submitted_at_ms INTEGER NOT NULL,
    user TEXT NOT NULL,
    submit_host TEXT NOT NULL,
    scheduler TEXT NOT NULL,
    job_id TEXT,
    output TEXT,
    workdir TEXT NOT NULL,
    job_file TEXT,
    nodes INTEGER NOT NULL,
    model TEXT,
    parameters INTEGER,
    dataset TEXT,
    samples INTEGER,
    batch_size INTEGER,
    epochs INTEGER,
    precision TEXT,
    dlrun_version TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'unknown',
    raw_state TEXT,
    reason TEXT,
    exit_code INTEGER,
    exit_signal INTEGER,
    started_at_ms INTEGER,
    ended_at_ms INTEGER,
    -- The owner according to the kernel; NULL in an index over files.
    uid INTEGER,
    -- Indexes of the job array, as in the job file; NULL: no array.
    array TEXT,
    -- Further jobs of an array that was split, a JSON array of objects with job_id and offset.
    parts TEXT,
    framework TEXT,
    framework_version TEXT,
    framework_compiler TEXT,
    storage TEXT,
    storage_class TEXT,
    -- 1 if it cannot start without a change.
    stuck INTEGER NOT NULL DEFAULT 0,
    -- Why it did not complete: one word, and text.
    cause TEXT,
    cause_text TEXT,
    -- Elements of the array by state, a JSON object.
    elements TEXT,
    -- The image that the command runs in: a path or URI, its name in the catalogue, and `sha256:..`; NULL: no container.
    image TEXT,
    image_name TEXT,
    image_digest TEXT,
    -- hub, pip or source.
    framework_provenance TEXT,
    change_seq INTEGER,
    -- Where a row was imported from, and its number there: which version of it this is. NULL: it was not imported.
    origin INTEGER REFERENCES origin (id),
    origin_seq INTEGER,
    -- Nothing reads these two.
    told_state TEXT,
    told_ended_at_ms INTEGER,
    -- The requested queue, tasks on each node, and the performance model's forecast, as JSON.
    queue TEXT,
    tasks_per_node INTEGER,
    forecast TEXT
) STRICT;
CREATE INDEX run_by_time ON run (submitted_at_ms, run_id);
CREATE INDEX run_by_name ON run (name, submitted_at_ms);
CREATE INDEX run_by_job ON run (job_id, submitted_at_ms) WHERE job_id IS NOT NULL;
CREATE INDEX run_unfinished ON run (submitted_at_ms)
    WHERE state IN ('pending', 'running', 'suspended', 'unknown');
CREATE UNIQUE INDEX run_by_change ON run (change_seq);

-- One start of a run; `shell_code` is the batch shell's own exit code, 128 + n for signal n.
CREATE TABLE attempt (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    element INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    job_id TEXT,
    first_node TEXT,
    started_at_ms INTEGER,
    ended_at_ms INTEGER,
    shell_code INTEGER,
    UNIQUE (run, element, attempt)
) STRICT;

-- Elements of an array that have run, and how they ended; `attempt` is the one that did, NULL if none left a mark.
CREATE TABLE element (
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    element INTEGER NOT NULL,
    attempt INTEGER,
    state TEXT NOT NULL,
    exit_code INTEGER,
    exit_signal INTEGER,
    started_at_ms INTEGER,
    ended_at_ms INTEGER,
    PRIMARY KEY (run, element)
) STRICT, WITHOUT ROWID;

-- Hardware on which runs can be compared, and what `dlrun bench node` measured. `gflops` are 10^9 single-precision operations per second.
CREATE TABLE target (
    id INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    cpu_model TEXT,
    cpus INTEGER,
    mem_total_bytes INTEGER,
    core_gflops REAL,
    node_gflops REAL,
    memory_gb_per_second REAL,
    disk_mb_per_second REAL,
    benched_at_ms INTEGER
) STRICT;

-- One `dlrun exec` on one node.
CREATE TABLE node (
    id INTEGER PRIMARY KEY,
    attempt INTEGER NOT NULL REFERENCES attempt (id) ON DELETE CASCADE,
    node TEXT NOT NULL,
    step INTEGER NOT NULL,
    job_id TEXT,
    state TEXT NOT NULL,
    started_at_ms INTEGER NOT NULL,
    ended_at_ms INTEGER,
    updated_at_ms INTEGER NOT NULL,
    exit_code INTEGER,
    exit_signal INTEGER,
    output TEXT,
    target INTEGER REFERENCES target (id),
    hostname TEXT NOT NULL,
    kernel TEXT,
    cpus_allowed INTEGER,
    omp_num_threads TEXT,
    recogniser TEXT,
    epochs_announced INTEGER,
    epochs_completed INTEGER NOT NULL,
    steps_per_epoch INTEGER,
    step_seconds REAL,
    throughput REAL,
    throughput_unit TEXT,
    segments INTEGER NOT NULL,
    watcher_cpu_us INTEGER NOT NULL,
    watcher_samples INTEGER NOT NULL,
    watcher_late_ticks INTEGER NOT NULL,
    -- The cgroup whose totals the samples are; NULL: sums over the processes.
    cgroup TEXT,
    -- How the command got into its container, a JSON object as in record.json.
    container TEXT,
    -- 0-based, 1-based or none.
    epoch_numbering TEXT,
    restarts INTEGER NOT NULL DEFAULT 0,
    last_step_epoch INTEGER,
    last_step INTEGER,
    last_step_of INTEGER,
    -- stated, clock or event.
    step_source TEXT,
    steps_timed INTEGER,
    step_median_seconds REAL,
    step_p95_seconds REAL,
    -- global, per_device or unknown.
    throughput_scope TEXT,
    run_seconds REAL,
    -- JSON objects: the last metrics, and the conditions as in record.json.
    last_metrics TEXT NOT NULL DEFAULT '{}',
    conditions TEXT NOT NULL DEFAULT '{}',
    change_seq INTEGER,
    origin INTEGER REFERENCES origin (id),
    origin_seq INTEGER,
    -- Time of evaluation and checkpoints outside of all epochs, if the program reported it.
    evaluation_outside_seconds REAL,
    checkpoint_outside_seconds REAL,
    UNIQUE (attempt, node, step)
) STRICT;
CREATE INDEX node_by_target ON node (target);
CREATE UNIQUE INDEX node_by_change ON node (change_seq);

-- In the order of their changes, so that the many rows of an export lie side by side. `place` counts the epochs of a node; those
-- that its record no longer holds leave holes. `event`: reported through DLRUN_EVENTS; `warmup`: first of a start.
CREATE TABLE timing (
    change_seq INTEGER PRIMARY KEY,
    node INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    printed_seconds REAL,
    clock_seconds REAL,
    ended_at_ms INTEGER,
    event INTEGER NOT NULL DEFAULT 0,
    warmup INTEGER NOT NULL DEFAULT 0,
    samples INTEGER,
    evaluation_seconds REAL,
    checkpoint_seconds REAL,
    metrics TEXT NOT NULL,
    origin INTEGER REFERENCES origin (id),
    origin_seq INTEGER,
    UNIQUE (node, place)
) STRICT;

-- Holes in the series.
CREATE TABLE gap (
    node INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    from_ms INTEGER NOT NULL,
    to_ms INTEGER NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (node, place)
) STRICT, WITHOUT ROWID;

-- What could not be measured.
CREATE TABLE missing (
    node INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    what TEXT NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (node, place)
) STRICT, WITHOUT ROWID;

-- Derived from the samples.
CREATE TABLE usage (
    node INTEGER PRIMARY KEY REFERENCES node (id) ON DELETE CASCADE,
    wall_seconds REAL,
    cpu_user_seconds REAL,
    cpu_system_seconds REAL,
    mem_peak_bytes INTEGER,
    io_read_bytes INTEGER,
    io_write_bytes INTEGER,
    processes_peak INTEGER,
    cpu_throttled_seconds REAL,
    mem_oom_kills INTEGER
) STRICT;

-- Segments of samples as they lie in files. Blobs overflow their pages, so this is a rowid table.
CREATE TABLE block (
    node INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    t0_ms INTEGER NOT NULL,
    t1_ms INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    change_seq INTEGER,
    origin INTEGER REFERENCES origin (id),
    UNIQUE (node, seq)
) STRICT;
CREATE UNIQUE INDEX block_by_change ON block (change_seq);

-- What happened, oldest first.
CREATE TABLE event (
    node INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL,
    change_seq INTEGER,
    PRIMARY KEY (node, place)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX event_by_change ON event (change_seq);

-- A GPU of a run: what it is, and how it was used. `mig` is 0 or 1, NULL if it cannot be divided.
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
    change_seq INTEGER,
    origin INTEGER REFERENCES origin (id),
    origin_seq INTEGER,
    PRIMARY KEY (node, uuid)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX gpu_by_change ON gpu (change_seq);

-- Samples that are in no block yet, in the order of their ids. A rowid table: the rows of a tick lie side by side, and
-- those of up to 4061 bytes fit into a page. `columns` is 0.
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

-- Other databases that rows came from, by their random names.
CREATE TABLE origin (
    id INTEGER PRIMARY KEY,
    store TEXT NOT NULL UNIQUE
) STRICT;

-- Imports, by the digest of their lines.
CREATE TABLE import (
    name TEXT PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    lines INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Lines of imports whose run, or whose measurement of it (`measure`; empty: the run), did not come yet.
CREATE TABLE waiting (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    measure TEXT NOT NULL,
    line TEXT NOT NULL,
    UNIQUE (run_id, measure, line)
) STRICT;

-- Which database this is, by a random name, and the number of its last change. Rows that leave it carry both: who has
-- all up to a number asks for what lies beyond.
CREATE TABLE change (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    store TEXT NOT NULL,
    last INTEGER NOT NULL
) STRICT;
INSERT INTO change (one, store, last) VALUES (1, lower(hex(randomblob(8))), 0);
