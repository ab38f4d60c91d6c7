-- Where a GPU lies in its machine.
ALTER TABLE gpu ADD COLUMN numa_node INTEGER;
ALTER TABLE gpu ADD COLUMN near_cpus TEXT;
ALTER TABLE gpu ADD COLUMN nvlinks INTEGER;
