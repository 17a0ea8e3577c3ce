-- what the figures need of each call that ended, in a narrow row that outlives the record of the call
CREATE TABLE ended (
    id TEXT PRIMARY KEY, tool TEXT NOT NULL, outcome TEXT NOT NULL, finished REAL NOT NULL,
    queue REAL, start REAL, run REAL, publish REAL, total REAL, pool TEXT, peak_memory REAL,
    cpu_seconds REAL NOT NULL, output_files INTEGER NOT NULL, output_bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX ended_finished ON ended (finished);
CREATE INDEX ended_counted ON ended (tool, outcome);
CREATE INDEX ended_pool ON ended (pool) WHERE pool IS NOT NULL;
CREATE INDEX ended_queue ON ended (queue) WHERE queue IS NOT NULL;
CREATE INDEX ended_start ON ended (start) WHERE start IS NOT NULL;
CREATE INDEX ended_run ON ended (run) WHERE run IS NOT NULL;
CREATE INDEX ended_publish ON ended (publish) WHERE publish IS NOT NULL;
CREATE INDEX ended_total ON ended (total) WHERE total IS NOT NULL;
CREATE INDEX ended_peak_memory ON ended (peak_memory) WHERE peak_memory IS NOT NULL;
CREATE INDEX ended_sums ON ended (cpu_seconds, output_files, output_bytes);
CREATE INDEX calls_finished ON calls (finished)
