-- Never edited once released: later versions add a file. Units are in the names of the columns.

-- Which database this is, by a random name, and the number of its last change. Rows that leave it carry both: whoever has taken
-- all up to a number asks for what lies beyond.
CREATE TABLE change (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    store TEXT NOT NULL,
    last INTEGER NOT NULL
) STRICT;
INSERT INTO change (one, store, last) VALUES (1, lower(hex(randomblob(8))), 0);

-- 0-based, 1-based or none.
ALTER TABLE node ADD COLUMN epoch_numbering TEXT;
ALTER TABLE node ADD COLUMN restarts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN last_step_epoch INTEGER;
ALTER TABLE node ADD COLUMN last_step INTEGER;
ALTER TABLE node ADD COLUMN last_step_of INTEGER;
-- stated, clock or event.
ALTER TABLE node ADD COLUMN step_source TEXT;
ALTER TABLE node ADD COLUMN steps_timed INTEGER;
ALTER TABLE node ADD COLUMN step_median_seconds REAL;
ALTER TABLE node ADD COLUMN step_p95_seconds REAL;
-- global, per_device or unknown.
ALTER TABLE node ADD COLUMN throughput_scope TEXT;
ALTER TABLE node ADD COLUMN run_seconds REAL;
-- JSON objects: the last metrics, and the conditions as in record.json.
ALTER TABLE node ADD COLUMN last_metrics TEXT NOT NULL DEFAULT '{}';
ALTER TABLE node ADD COLUMN conditions TEXT NOT NULL DEFAULT '{}';

-- In the order of their changes, so that the many rows of an export lie side by side. `place` counts the epochs of a node; those
-- that its record no longer holds leave holes. `event`: told through DLRUN_EVENTS; `warmup`: first of a start.
CREATE TABLE timing_of_5 (
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
    UNIQUE (node, place)
) STRICT;
INSERT INTO timing_of_5 (change_seq, node, place, epoch, printed_seconds, clock_seconds, ended_at_ms, metrics)
    SELECT row_number() OVER (ORDER BY node, place), node, place, epoch, printed_seconds, clock_seconds, ended_at_ms, metrics
    FROM timing;
DROP TABLE timing;
ALTER TABLE timing_of_5 RENAME TO timing;
UPDATE change SET last = (SELECT coalesce(max(change_seq), 0) FROM timing);

-- What is there gets numbers.
ALTER TABLE run ADD COLUMN change_seq INTEGER;
ALTER TABLE node ADD COLUMN change_seq INTEGER;
ALTER TABLE gpu ADD COLUMN change_seq INTEGER;
ALTER TABLE event ADD COLUMN change_seq INTEGER;
ALTER TABLE block ADD COLUMN change_seq INTEGER;
UPDATE run SET change_seq = id + (SELECT last FROM change);
UPDATE change SET last = last + (SELECT coalesce(max(id), 0) FROM run);
UPDATE node SET change_seq = id + (SELECT last FROM change);
UPDATE change SET last = last + (SELECT coalesce(max(id), 0) FROM node);
UPDATE gpu SET change_seq = number + (SELECT last FROM change)
    FROM (SELECT node, uuid, row_number() OVER () AS number FROM gpu) AS numbered
    WHERE gpu.node = numbered.node AND gpu.uuid = numbered.uuid;
UPDATE change SET last = last + (SELECT count(*) FROM gpu);
UPDATE event SET change_seq = number + (SELECT last FROM change)
    FROM (SELECT node, place, row_number() OVER () AS number FROM event) AS numbered
    WHERE event.node = numbered.node AND event.place = numbered.place;
UPDATE change SET last = last + (SELECT count(*) FROM event);
UPDATE block SET change_seq = rowid + (SELECT last FROM change);
UPDATE change SET last = last + (SELECT coalesce(max(rowid), 0) FROM block);

CREATE UNIQUE INDEX run_by_change ON run (change_seq);
CREATE UNIQUE INDEX node_by_change ON node (change_seq);
CREATE UNIQUE INDEX gpu_by_change ON gpu (change_seq);
CREATE UNIQUE INDEX event_by_change ON event (change_seq);
CREATE UNIQUE INDEX block_by_change ON block (change_seq);

-- A row gets a new number when it is new and when it is another than before. To set its number to NULL asks for a new one.
-- Writers give epochs and blocks their numbers themselves: a block is too long to be written twice.
CREATE TRIGGER timing_new AFTER INSERT ON timing BEGIN
    UPDATE change SET last = max(last, NEW.change_seq);
END;
CREATE TRIGGER timing_changed AFTER UPDATE ON timing BEGIN
    UPDATE change SET last = max(last, NEW.change_seq);
END;
CREATE TRIGGER block_new AFTER INSERT ON block BEGIN
    UPDATE change SET last = max(last, NEW.change_seq);
END;

CREATE TRIGGER run_new AFTER INSERT ON run BEGIN
    UPDATE change SET last = last + 1;
    UPDATE run SET change_seq = (SELECT last FROM change) WHERE id = NEW.id;
END;
CREATE TRIGGER run_changed AFTER UPDATE ON run WHEN NEW.change_seq IS NULL OR NEW.change_seq IS OLD.change_seq
    AND (NEW.name, NEW.submitted_at_ms, NEW.user, NEW.submit_host, NEW.scheduler, NEW.job_id, NEW.output, NEW.workdir,
        NEW.job_file, NEW.nodes, NEW.model, NEW.parameters, NEW.dataset, NEW.samples, NEW.batch_size, NEW.epochs,
        NEW.precision, NEW.dlrun_version, NEW.state, NEW.raw_state, NEW.reason, NEW.exit_code, NEW.exit_signal,
        NEW.started_at_ms, NEW.ended_at_ms, NEW.uid, NEW.array, NEW.parts, NEW.framework, NEW.framework_version,
        NEW.framework_compiler, NEW.storage, NEW.storage_class, NEW.stuck, NEW.cause, NEW.cause_text, NEW.elements,
        NEW.image, NEW.image_name, NEW.image_digest, NEW.framework_provenance)
    IS NOT (OLD.name, OLD.submitted_at_ms, OLD.user, OLD.submit_host, OLD.scheduler, OLD.job_id, OLD.output, OLD.workdir,
        OLD.job_file, OLD.nodes, OLD.model, OLD.parameters, OLD.dataset, OLD.samples, OLD.batch_size, OLD.epochs,
        OLD.precision, OLD.dlrun_version, OLD.state, OLD.raw_state, OLD.reason, OLD.exit_code, OLD.exit_signal,
        OLD.started_at_ms, OLD.ended_at_ms, OLD.uid, OLD.array, OLD.parts, OLD.framework, OLD.framework_version,
        OLD.framework_compiler, OLD.storage, OLD.storage_class, OLD.stuck, OLD.cause, OLD.cause_text, OLD.elements,
        OLD.image, OLD.image_name, OLD.image_digest, OLD.framework_provenance)
BEGIN
    UPDATE change SET last = last + 1;
    UPDATE run SET change_seq = (SELECT last FROM change) WHERE id = NEW.id;
END;

CREATE TRIGGER node_new AFTER INSERT ON node BEGIN
    UPDATE change SET last = last + 1;
    UPDATE node SET change_seq = (SELECT last FROM change) WHERE id = NEW.id;
END;
CREATE TRIGGER node_changed AFTER UPDATE ON node WHEN NEW.change_seq IS NULL OR NEW.change_seq IS OLD.change_seq
    AND (NEW.job_id, NEW.state, NEW.started_at_ms, NEW.ended_at_ms, NEW.updated_at_ms, NEW.exit_code, NEW.exit_signal,
        NEW.output, NEW.target, NEW.hostname, NEW.kernel, NEW.cpus_allowed, NEW.omp_num_threads, NEW.recogniser,
        NEW.epochs_announced, NEW.epochs_completed, NEW.steps_per_epoch, NEW.step_seconds, NEW.throughput,
        NEW.throughput_unit, NEW.segments, NEW.watcher_cpu_us, NEW.watcher_samples, NEW.watcher_late_ticks, NEW.cgroup,
        NEW.container, NEW.epoch_numbering, NEW.restarts, NEW.last_step_epoch, NEW.last_step, NEW.last_step_of,
        NEW.step_source, NEW.steps_timed, NEW.step_median_seconds, NEW.step_p95_seconds, NEW.throughput_scope,
        NEW.run_seconds, NEW.last_metrics, NEW.conditions)
    IS NOT (OLD.job_id, OLD.state, OLD.started_at_ms, OLD.ended_at_ms, OLD.updated_at_ms, OLD.exit_code, OLD.exit_signal,
        OLD.output, OLD.target, OLD.hostname, OLD.kernel, OLD.cpus_allowed, OLD.omp_num_threads, OLD.recogniser,
        OLD.epochs_announced, OLD.epochs_completed, OLD.steps_per_epoch, OLD.step_seconds, OLD.throughput,
        OLD.throughput_unit, OLD.segments, OLD.watcher_cpu_us, OLD.watcher_samples, OLD.watcher_late_ticks, OLD.cgroup,
        OLD.container, OLD.epoch_numbering, OLD.restarts, OLD.last_step_epoch, OLD.last_step, OLD.last_step_of,
        OLD.step_source, OLD.steps_timed, OLD.step_median_seconds, OLD.step_p95_seconds, OLD.throughput_scope,
        OLD.run_seconds, OLD.last_metrics, OLD.conditions)
BEGIN
    UPDATE change SET last = last + 1;
    UPDATE node SET change_seq = (SELECT last FROM change) WHERE id = NEW.id;
END;
-- What leaves the database with a node only once that is over must not have been passed by before.
CREATE TRIGGER node_over AFTER UPDATE OF state ON node WHEN NEW.state IS NOT OLD.state BEGIN
    UPDATE gpu SET change_seq = NULL WHERE node = NEW.id;
END;
CREATE TRIGGER attempt_changed AFTER UPDATE ON attempt
    WHEN (NEW.job_id, NEW.first_node, NEW.started_at_ms, NEW.ended_at_ms, NEW.shell_code)
        IS NOT (OLD.job_id, OLD.first_node, OLD.started_at_ms, OLD.ended_at_ms, OLD.shell_code)
BEGIN
    UPDATE node SET change_seq = NULL WHERE attempt = NEW.id;
END;
CREATE TRIGGER usage_new AFTER INSERT ON usage BEGIN
    UPDATE node SET change_seq = NULL WHERE id = NEW.node;
END;
CREATE TRIGGER usage_changed AFTER UPDATE ON usage BEGIN
    UPDATE node SET change_seq = NULL WHERE id = NEW.node;
END;

CREATE TRIGGER gpu_new AFTER INSERT ON gpu BEGIN
    UPDATE change SET last = last + 1;
    UPDATE gpu SET change_seq = (SELECT last FROM change) WHERE node = NEW.node AND uuid = NEW.uuid;
END;
CREATE TRIGGER gpu_changed AFTER UPDATE ON gpu WHEN NEW.change_seq IS NULL OR NEW.change_seq IS OLD.change_seq BEGIN
    UPDATE change SET last = last + 1;
    UPDATE gpu SET change_seq = (SELECT last FROM change) WHERE node = NEW.node AND uuid = NEW.uuid;
END;
CREATE TRIGGER event_new AFTER INSERT ON event BEGIN
    UPDATE change SET last = last + 1;
    UPDATE event SET change_seq = (SELECT last FROM change) WHERE node = NEW.node AND place = NEW.place;
END;
