-- Never edited once released: later versions add a file. Units are in the names of the columns.

-- Losses and metrics of epochs, steps and evaluations (`kind`), a row for each value; `place` counts the points of a kind of a node.
-- NULL: it was no finite number.
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
CREATE TRIGGER metric_new AFTER INSERT ON metric BEGIN
    UPDATE change SET last = max(last, NEW.change_seq);
END;
CREATE TRIGGER metric_changed AFTER UPDATE ON metric BEGIN
    UPDATE change SET last = max(last, NEW.change_seq);
END;
