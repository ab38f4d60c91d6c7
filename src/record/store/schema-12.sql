-- Never edited once released: later versions add a file. Units are in the names of the columns.

-- The ranks of distributed trainings.
CREATE TABLE rank (
    node INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
    rank INTEGER NOT NULL,
    local_rank INTEGER NOT NULL,
    world_size INTEGER NOT NULL,
    role TEXT,
    started_at_ms INTEGER NOT NULL,
    ended_at_ms INTEGER,
    exit_code INTEGER,
    exit_signal INTEGER,
    fell_first INTEGER NOT NULL,
    last_words TEXT,
    output TEXT,
    cpu_seconds REAL,
    mem_peak_bytes INTEGER,
    gpus TEXT,
    omp_num_threads INTEGER,
    epochs INTEGER,
    epoch_seconds REAL,
    epoch_source TEXT,
    step_seconds REAL,
    step_source TEXT,
    change_seq INTEGER,
    origin INTEGER REFERENCES origin (id),
    origin_seq INTEGER,
    PRIMARY KEY (node, rank)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX rank_by_change ON rank (change_seq);
CREATE TRIGGER rank_over AFTER UPDATE OF state ON node WHEN NEW.state IS NOT OLD.state BEGIN
    UPDATE rank SET change_seq = NULL WHERE node = NEW.id;
END;
CREATE TRIGGER rank_new AFTER INSERT ON rank BEGIN
    UPDATE change SET last = last + 1;
    UPDATE rank SET change_seq = (SELECT last FROM change) WHERE node = NEW.node AND rank = NEW.rank;
END;
CREATE TRIGGER rank_changed AFTER UPDATE ON rank WHEN NEW.change_seq IS NULL OR NEW.change_seq IS OLD.change_seq BEGIN
    UPDATE change SET last = last + 1;
    UPDATE rank SET change_seq = (SELECT last FROM change) WHERE node = NEW.node AND rank = NEW.rank;
END;

-- A start of a run is a row of exports. `record`: what its job noted of it, JSON as in attempt.json; NULL of runs that cannot continue.
ALTER TABLE attempt ADD COLUMN record TEXT;
ALTER TABLE attempt ADD COLUMN change_seq INTEGER;
ALTER TABLE attempt ADD COLUMN origin INTEGER REFERENCES origin (id);
ALTER TABLE attempt ADD COLUMN origin_seq INTEGER;
UPDATE attempt SET change_seq = id + (SELECT last FROM change);
UPDATE change SET last = max(last, (SELECT coalesce(max(change_seq), 0) FROM attempt));
CREATE UNIQUE INDEX attempt_by_change ON attempt (change_seq);
CREATE TRIGGER attempt_over AFTER UPDATE ON run WHEN (NEW.state, NEW.started_at_ms) IS NOT (OLD.state, OLD.started_at_ms) BEGIN
    UPDATE attempt SET change_seq = NULL WHERE run = NEW.id AND ended_at_ms IS NULL;
END;
CREATE TRIGGER attempt_new AFTER INSERT ON attempt BEGIN
    UPDATE change SET last = last + 1;
    UPDATE attempt SET change_seq = (SELECT last FROM change) WHERE id = NEW.id;
END;
CREATE TRIGGER attempt_numbered AFTER UPDATE ON attempt WHEN NEW.change_seq IS NULL OR NEW.change_seq IS OLD.change_seq BEGIN
    UPDATE change SET last = last + 1;
    UPDATE attempt SET change_seq = (SELECT last FROM change) WHERE id = NEW.id;
END;

-- When a training that runs will end.
ALTER TABLE node ADD COLUMN expected_end_ms INTEGER;
ALTER TABLE node ADD COLUMN expected_end_earliest_ms INTEGER;
ALTER TABLE node ADD COLUMN expected_end_latest_ms INTEGER;

-- What the trial before the command measured, a JSON object as in record.json.
ALTER TABLE node ADD COLUMN trial TEXT;

-- Rhythm and phases.
ALTER TABLE node ADD COLUMN activity TEXT;

-- What was held without work.
ALTER TABLE node ADD COLUMN held TEXT;

-- When memory was expected to exceed its limit, and when it did.
ALTER TABLE node ADD COLUMN memory_forecast TEXT;

-- Share of the time of steps in which they waited for data, as the program states it.
ALTER TABLE node ADD COLUMN step_data_wait_ratio REAL;
