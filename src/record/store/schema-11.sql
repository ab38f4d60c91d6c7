-- What was added since, and all triggers: those that dlrun 0.1 made stay as they are, but for the two below.

-- What a run is a run of, as JSON, and the two names by which runs that may be alike are found.
ALTER TABLE run ADD COLUMN identity TEXT;
CREATE INDEX run_program ON run (identity ->> 'program') WHERE identity IS NOT NULL;
CREATE INDEX run_workload ON run (identity ->> 'key') WHERE identity IS NOT NULL;

-- The wall clock of the node was set while the epoch ran: its times are not used.
ALTER TABLE timing ADD COLUMN clock_set INTEGER NOT NULL DEFAULT 0;

-- Losses and metrics of epochs, steps and evaluations (`kind`), a row for each value; `place` counts the points of a kind of a node.
-- NULL: not a finite number.
CREATE TABLE metric (
    change_seq INTEGER PRIMARY KEY,
    node INTEGER NOT NULL REFERENCES node (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    place INTEGER NOT NULL,
    name TEXT NOT NULL,
    epoch INTEGER,
    step INTEGER,
    at_ms INTEGER,
    value REAL,
    origin INTEGER REFERENCES origin (id),
    origin_seq INTEGER,
    UNIQUE (node, kind, place, name)
) STRICT;
INSERT INTO metric (change_seq, node, kind, place, name, epoch, at_ms, value)
    SELECT row_number() OVER (ORDER BY timing.change_seq) + (SELECT last FROM change), timing.node, 'epoch', timing.place, it.key,
        timing.epoch, timing.ended_at_ms, CAST(it.value AS REAL)
    FROM timing CROSS JOIN json_each(timing.metrics) AS it;
UPDATE change SET last = max(last, (SELECT coalesce(max(change_seq), 0) FROM metric));

-- Sums over a minute and an hour, which nothing reads, and samples of another form.
DROP TABLE IF EXISTS rollup;
DROP TABLE IF EXISTS series;
DROP TABLE IF EXISTS spool_columns;
DELETE FROM spool;

-- A row gets a new number when it is new and when it is written again; writers leave out rows that are as they were. To set its number
-- to NULL asks for a new one. Writers give epochs, metrics and blocks their numbers themselves: a block is too long to be written twice.
CREATE TRIGGER IF NOT EXISTS timing_new AFTER INSERT ON timing BEGIN
    UPDATE change SET last = max(last, NEW.change_seq);
END;
CREATE TRIGGER IF NOT EXISTS timing_changed AFTER UPDATE ON timing BEGIN
    UPDATE change SET last = max(last, NEW.change_seq);
END;
CREATE TRIGGER metric_new AFTER INSERT ON metric BEGIN
    UPDATE change SET last = max(last, NEW.change_seq);
END;
CREATE TRIGGER metric_changed AFTER UPDATE ON metric BEGIN
    UPDATE change SET last = max(last, NEW.change_seq);
END;
CREATE TRIGGER IF NOT EXISTS block_new AFTER INSERT ON block BEGIN
    UPDATE change SET last = max(last, NEW.change_seq);
END;
CREATE TRIGGER IF NOT EXISTS run_new AFTER INSERT ON run BEGIN
    UPDATE change SET last = last + 1;
    UPDATE run SET change_seq = (SELECT last FROM change) WHERE id = NEW.id;
END;
DROP TRIGGER IF EXISTS run_changed;
DROP TRIGGER IF EXISTS run_changed_aside;
CREATE TRIGGER run_changed AFTER UPDATE ON run WHEN NEW.change_seq IS NULL OR NEW.change_seq IS OLD.change_seq BEGIN
    UPDATE change SET last = last + 1;
    UPDATE run SET change_seq = (SELECT last FROM change) WHERE id = NEW.id;
END;
CREATE TRIGGER IF NOT EXISTS node_new AFTER INSERT ON node BEGIN
    UPDATE change SET last = last + 1;
    UPDATE node SET change_seq = (SELECT last FROM change) WHERE id = NEW.id;
END;
DROP TRIGGER IF EXISTS node_changed;
DROP TRIGGER IF EXISTS node_changed_aside;
CREATE TRIGGER node_changed AFTER UPDATE ON node WHEN NEW.change_seq IS NULL OR NEW.change_seq IS OLD.change_seq BEGIN
    UPDATE change SET last = last + 1;
    UPDATE node SET change_seq = (SELECT last FROM change) WHERE id = NEW.id;
END;
-- What leaves the database with a node only once that is over must not have been passed by before.
CREATE TRIGGER IF NOT EXISTS node_over AFTER UPDATE OF state ON node WHEN NEW.state IS NOT OLD.state BEGIN
    UPDATE gpu SET change_seq = NULL WHERE node = NEW.id;
END;
CREATE TRIGGER IF NOT EXISTS attempt_changed AFTER UPDATE ON attempt
    WHEN (NEW.job_id, NEW.first_node, NEW.started_at_ms, NEW.ended_at_ms, NEW.shell_code)
        IS NOT (OLD.job_id, OLD.first_node, OLD.started_at_ms, OLD.ended_at_ms, OLD.shell_code)
BEGIN
    UPDATE node SET change_seq = NULL WHERE attempt = NEW.id;
END;
CREATE TRIGGER IF NOT EXISTS usage_new AFTER INSERT ON usage BEGIN
    UPDATE node SET change_seq = NULL WHERE id = NEW.node;
END;
CREATE TRIGGER IF NOT EXISTS usage_changed AFTER UPDATE ON usage BEGIN
    UPDATE node SET change_seq = NULL WHERE id = NEW.node;
END;
-- The rows of usage carry the figures of their target.
CREATE TRIGGER IF NOT EXISTS target_changed AFTER UPDATE ON target BEGIN
    UPDATE node SET change_seq = NULL WHERE target = NEW.id;
END;
CREATE TRIGGER IF NOT EXISTS gpu_new AFTER INSERT ON gpu BEGIN
    UPDATE change SET last = last + 1;
    UPDATE gpu SET change_seq = (SELECT last FROM change) WHERE node = NEW.node AND uuid = NEW.uuid;
END;
CREATE TRIGGER IF NOT EXISTS gpu_changed AFTER UPDATE ON gpu WHEN NEW.change_seq IS NULL OR NEW.change_seq IS OLD.change_seq BEGIN
    UPDATE change SET last = last + 1;
    UPDATE gpu SET change_seq = (SELECT last FROM change) WHERE node = NEW.node AND uuid = NEW.uuid;
END;
CREATE TRIGGER IF NOT EXISTS event_new AFTER INSERT ON event BEGIN
    UPDATE change SET last = last + 1;
    UPDATE event SET change_seq = (SELECT last FROM change) WHERE node = NEW.node AND place = NEW.place;
END;
