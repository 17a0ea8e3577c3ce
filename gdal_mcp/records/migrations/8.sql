-- an approval is consumed by its own call: states for a call that waits to start, and for a yes that no call has taken up
CREATE TABLE approvals_8 (
    id TEXT PRIMARY KEY, plan_digest TEXT NOT NULL, principal TEXT NOT NULL, tool TEXT NOT NULL,
    summary TEXT NOT NULL, created REAL NOT NULL, expires REAL NOT NULL,
    state TEXT NOT NULL CHECK (
        state IN ('asked', 'approved', 'released', 'reserved', 'consumed', 'denied', 'expired')),
    decided_by TEXT NOT NULL, decided_how TEXT NOT NULL, decided_at REAL,
    call_id TEXT NOT NULL DEFAULT '', effect TEXT NOT NULL DEFAULT '',
    workspaces TEXT NOT NULL DEFAULT '[]', ways TEXT NOT NULL DEFAULT '[]',
    details TEXT NOT NULL DEFAULT '{}', holder TEXT NOT NULL DEFAULT '',
    decided_way TEXT NOT NULL DEFAULT '', valid_seconds REAL NOT NULL DEFAULT 300);
INSERT INTO approvals_8 (id, plan_digest, principal, tool, summary, created, expires, state, decided_by, decided_how,
    decided_at, call_id, effect, workspaces, ways, details, holder)
    SELECT id, plan_digest, principal, tool, summary, created, expires,
        CASE state WHEN 'pending' THEN 'asked' WHEN 'used' THEN 'consumed' ELSE state END,
        decided_by, decided_how, decided_at, call_id, effect, workspaces, ways, details, holder
    FROM approvals;
DROP TABLE approvals;
ALTER TABLE approvals_8 RENAME TO approvals;
CREATE INDEX approvals_plan ON approvals (plan_digest, principal);
CREATE INDEX approvals_live ON approvals (expires) WHERE state IN ('asked', 'approved', 'released', 'reserved')
