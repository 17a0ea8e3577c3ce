-- calls that go on after their request was answered
CREATE TABLE tasks (
    id TEXT PRIMARY KEY, principal TEXT NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL,
    created REAL NOT NULL, updated REAL NOT NULL, keep REAL NOT NULL,
    status TEXT NOT NULL
    CHECK (status IN ('working', 'input_required', 'completed', 'failed', 'cancelled')),
    message TEXT NOT NULL, payload TEXT);
CREATE INDEX tasks_principal ON tasks (principal);
CREATE INDEX tasks_working ON tasks (server) WHERE status = 'working';
