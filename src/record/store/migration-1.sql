-- Never edited once released: later versions add a file. Units are in the names of the columns.

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
    ended_at_ms INTEGER
) STRICT;
CREATE INDEX run_by_time ON run (submitted_at_ms, run_id);
CREATE INDEX run_by_name ON run (name, submitted_at_ms);
CREATE INDEX run_by_job ON run (job_id, submitted_at_ms) WHERE job_id IS NOT NULL;
CREATE INDEX run_unfinished ON run (submitted_at_ms)
    WHERE state IN ('pending', 'running', 'suspended', 'unknown');

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

-- Hardware on which runs can be compared.
CREATE TABLE target (
    id INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    cpu_model TEXT,
    cpus INTEGER,
    mem_total_bytes INTEGER
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
    UNIQUE (attempt, node, step)
) STRICT;
CREATE INDEX node_by_target ON node (target);

-- Epochs in the order in which they ended; a program may count from 1 more than once. `metrics` is a JSON object.
CREATE TABLE timing (
    node INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    printed_seconds REAL,
    clock_seconds REAL,
    ended_at_ms INTEGER,
    metrics TEXT NOT NULL,
    PRIMARY KEY (node, place)
) STRICT, WITHOUT ROWID;

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
    processes_peak INTEGER
) STRICT;

-- Segments of samples as they lie in files. Blobs overflow their pages, so this is a rowid table.
CREATE TABLE block (
    node INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    t0_ms INTEGER NOT NULL,
    t1_ms INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    UNIQUE (node, seq)
) STRICT;
