-- calls, the figures of those that ended, what they made, approvals, and calls that run as tasks
CREATE TABLE calls (
    id TEXT PRIMARY KEY, principal TEXT NOT NULL, tool TEXT NOT NULL, arguments TEXT NOT NULL,
    server TEXT NOT NULL, arguments_digest TEXT NOT NULL, plan_digest TEXT NOT NULL,
    argv TEXT NOT NULL, image TEXT NOT NULL, tool_version TEXT NOT NULL, tier TEXT NOT NULL,
    started REAL NOT NULL, finished REAL, outcome TEXT NOT NULL, message TEXT NOT NULL,
    durations TEXT NOT NULL, receipt TEXT NOT NULL, image_reference TEXT NOT NULL, catalogue TEXT NOT NULL,
    limits TEXT NOT NULL, approval TEXT NOT NULL, inputs TEXT NOT NULL, outputs TEXT NOT NULL,
    files TEXT NOT NULL, removed TEXT NOT NULL, printed TEXT NOT NULL, undone TEXT NOT NULL, part_of TEXT NOT NULL);
CREATE INDEX calls_started ON calls (started);
CREATE INDEX calls_finished ON calls (finished);
CREATE INDEX calls_unfinished ON calls (server) WHERE finished IS NULL;
CREATE INDEX calls_principal ON calls (principal);
CREATE INDEX calls_by_workflow ON calls (part_of) WHERE part_of <> '';
-- what the figures need of a call, in a narrow row that outlives the record of the call
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
-- AUTOINCREMENT: a number is never given twice, so a cursor never shows something new as old
CREATE TABLE artifacts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, uri TEXT NOT NULL,
    call_id TEXT NOT NULL REFERENCES calls (id), path TEXT NOT NULL, name TEXT NOT NULL,
    size INTEGER NOT NULL, media_type TEXT NOT NULL, sha256 TEXT NOT NULL, kind TEXT NOT NULL,
    created REAL NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('listed', 'superseded', 'retracted')),
    superseded_by INTEGER REFERENCES artifacts (id));
CREATE UNIQUE INDEX artifacts_listed ON artifacts (uri) WHERE state = 'listed';
CREATE INDEX artifacts_call ON artifacts (call_id);
CREATE INDEX artifacts_superseded ON artifacts (superseded_by);
CREATE TABLE approvals (
    id TEXT PRIMARY KEY, plan_digest TEXT NOT NULL, principal TEXT NOT NULL, tool TEXT NOT NULL,
    summary TEXT NOT NULL, created REAL NOT NULL, expires REAL NOT NULL,
    state TEXT NOT NULL CHECK (
        state IN ('asked', 'approved', 'released', 'reserved', 'consumed', 'denied', 'expired')),
    decided_by TEXT NOT NULL, decided_how TEXT NOT NULL, decided_at REAL, call_id TEXT NOT NULL,
    effect TEXT NOT NULL, workspaces TEXT NOT NULL, ways TEXT NOT NULL, details TEXT NOT NULL,
    holder TEXT NOT NULL, decided_way TEXT NOT NULL, valid_seconds REAL NOT NULL);
CREATE INDEX approvals_plan ON approvals (plan_digest, principal);
CREATE INDEX approvals_live ON approvals (expires) WHERE state IN ('asked', 'approved', 'released', 'reserved');
-- approvals in advance, and in `remote` where a call may read over the network
CREATE TABLE grants (
    id TEXT PRIMARY KEY, principal TEXT NOT NULL, tool TEXT NOT NULL, workspace TEXT NOT NULL,
    created REAL NOT NULL, expires REAL NOT NULL, granted_by TEXT NOT NULL, granted_how TEXT NOT NULL,
    revoked REAL, revoked_by TEXT NOT NULL, remote TEXT NOT NULL);
CREATE INDEX grants_live ON grants (principal, tool, expires) WHERE revoked IS NULL;
-- calls that go on after their request was answered
CREATE TABLE tasks (
    id TEXT PRIMARY KEY, principal TEXT NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL,
    created REAL NOT NULL, updated REAL NOT NULL, keep REAL NOT NULL,
    status TEXT NOT NULL
    CHECK (status IN ('working', 'input_required', 'completed', 'failed', 'cancelled')),
    message TEXT NOT NULL, payload TEXT);
CREATE INDEX tasks_principal ON tasks (principal);
CREATE INDEX tasks_working ON tasks (server) WHERE status = 'working';
