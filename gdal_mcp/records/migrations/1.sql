-- the first format: calls, what they made, and approvals
CREATE TABLE calls (
    id TEXT PRIMARY KEY, principal TEXT NOT NULL, tool TEXT NOT NULL, arguments TEXT NOT NULL,
    server TEXT NOT NULL, arguments_digest TEXT NOT NULL, plan_digest TEXT NOT NULL,
    argv TEXT NOT NULL, image TEXT NOT NULL, gdal_version TEXT NOT NULL, tier TEXT NOT NULL,
    started REAL NOT NULL, finished REAL, outcome TEXT NOT NULL, message TEXT NOT NULL,
    durations TEXT NOT NULL, receipt TEXT NOT NULL);
CREATE INDEX calls_started ON calls (started);
CREATE INDEX calls_unfinished ON calls (server) WHERE finished IS NULL;
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
    state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'used', 'expired')),
    decided_by TEXT NOT NULL, decided_how TEXT NOT NULL, decided_at REAL);
CREATE INDEX approvals_plan ON approvals (plan_digest, principal);
CREATE INDEX approvals_live ON approvals (expires) WHERE state IN ('pending', 'approved');
