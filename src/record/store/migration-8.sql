-- Never edited once released: later versions add a file. Units are in the names of the columns.

-- The queue that a run waits in, tasks on each of its nodes, and what the performance model said of it, as JSON.
ALTER TABLE run ADD COLUMN queue TEXT;
ALTER TABLE run ADD COLUMN tasks_per_node INTEGER;
ALTER TABLE run ADD COLUMN forecast TEXT;
CREATE TRIGGER run_changed_aside AFTER UPDATE ON run
    WHEN (NEW.queue, NEW.tasks_per_node, NEW.forecast) IS NOT (OLD.queue, OLD.tasks_per_node, OLD.forecast)
BEGIN
    UPDATE run SET change_seq = NULL WHERE id = NEW.id;
END;

-- What `dlrun bench node` measured of a kind of node. `gflops` are 10^9 single-precision operations per second.
ALTER TABLE target ADD COLUMN core_gflops REAL;
ALTER TABLE target ADD COLUMN node_gflops REAL;
ALTER TABLE target ADD COLUMN memory_gb_per_second REAL;
ALTER TABLE target ADD COLUMN disk_mb_per_second REAL;
ALTER TABLE target ADD COLUMN benched_at_ms INTEGER;
-- The rows of usage carry the figures of their target.
CREATE TRIGGER target_changed AFTER UPDATE ON target
    WHEN (NEW.core_gflops, NEW.node_gflops, NEW.memory_gb_per_second, NEW.disk_mb_per_second, NEW.benched_at_ms)
        IS NOT (OLD.core_gflops, OLD.node_gflops, OLD.memory_gb_per_second, OLD.disk_mb_per_second, OLD.benched_at_ms)
BEGIN
    UPDATE node SET change_seq = NULL WHERE target = NEW.id;
END;
