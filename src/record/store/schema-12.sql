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
