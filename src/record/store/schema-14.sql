-- How much a network computes for each sample, where the job file says it.
ALTER TABLE run ADD COLUMN flops_per_sample INTEGER;
