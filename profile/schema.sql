-- The tables of a recording; docs/recording.md explains them. The rows that name the numbers of kinds, roles, outcomes
-- and reasons are added by profile/create.c.

CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE frame_kind(id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE frame_role(id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE stack_outcome(id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE stack_reason(id INTEGER PRIMARY KEY, name TEXT NOT NULL, text TEXT NOT NULL);

CREATE TABLE process(
  id INTEGER PRIMARY KEY,
  pid INTEGER NOT NULL,
  start_time INTEGER NOT NULL,
  comm TEXT,
  command_line TEXT,
  runtime TEXT,
  runtime_description TEXT);

CREATE TABLE thread(
  id INTEGER PRIMARY KEY,
  process INTEGER NOT NULL REFERENCES process(id),
  tid INTEGER NOT NULL,
  comm TEXT,
  runtime_name TEXT);

CREATE TABLE trigger(id INTEGER PRIMARY KEY, name TEXT NOT NULL, unit TEXT NOT NULL);

CREATE TABLE function(
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL REFERENCES frame_kind(id),
  role INTEGER REFERENCES frame_role(id),
  name TEXT,
  owner TEXT,
  path TEXT,
  library TEXT,
  build_id TEXT,
  first_line INTEGER,
  method TEXT,
  language TEXT);

CREATE TABLE frame(
  id INTEGER PRIMARY KEY,
  function INTEGER NOT NULL REFERENCES function(id),
  line INTEGER,
  flags INTEGER NOT NULL,
  file_off INTEGER,
  addr INTEGER,
  func_addr INTEGER);

CREATE TABLE stack(
  id INTEGER PRIMARY KEY,
  parent INTEGER REFERENCES stack(id),
  frame INTEGER NOT NULL REFERENCES frame(id));

CREATE TABLE sample(
  id INTEGER PRIMARY KEY,
  time_ns INTEGER NOT NULL,
  thread INTEGER NOT NULL REFERENCES thread(id),
  stack INTEGER REFERENCES stack(id),
  trigger INTEGER NOT NULL REFERENCES trigger(id),
  weight INTEGER NOT NULL,
  outcome INTEGER NOT NULL REFERENCES stack_outcome(id),
  reason INTEGER REFERENCES stack_reason(id));

CREATE TABLE loss(what TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;

CREATE VIEW named_frame AS
  SELECT frame.id AS id, CASE function.kind WHEN 1 THEN coalesce(language, frame_kind.name) ELSE frame_kind.name END
      AS kind, frame_role.name AS role, function.name AS name, owner, path, line,
    library, build_id, file_off, addr, func_addr, flags & 1 AS inlined, frame.function AS function, first_line, method,
    language
  FROM frame
    JOIN function ON function.id = frame.function
    JOIN frame_kind ON frame_kind.id = function.kind
    LEFT JOIN frame_role ON frame_role.id = function.role;

CREATE VIEW named_sample AS
  SELECT sample.id AS id, time_ns, trigger.name AS trigger, unit, weight, pid, tid, thread.comm AS comm, runtime_name,
    stack_outcome.name AS outcome, stack_reason.name AS reason, sample.stack AS stack, stack.frame AS leaf
  FROM sample
    JOIN trigger ON trigger.id = sample.trigger
    JOIN thread ON thread.id = sample.thread
    JOIN process ON process.id = thread.process
    JOIN stack_outcome ON stack_outcome.id = sample.outcome
    LEFT JOIN stack_reason ON stack_reason.id = sample.reason
    LEFT JOIN stack ON stack.id = sample.stack;
