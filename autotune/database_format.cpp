#include "autotune/database_format.h"

#include "support/error.h"

namespace kumiko {

namespace {

// Version 1 lacked estimated_seconds, predicted and origin, and left `features` empty.
const char *const schema = R"(
CREATE TABLE tasks (
    id       INTEGER PRIMARY KEY,
    op       TEXT NOT NULL,
    op_hash  TEXT NOT NULL,
    sizes    TEXT NOT NULL,   -- JSON: the symbolic sizes as bound
    machine  TEXT NOT NULL,   -- Machine::id()
    threads  INTEGER NOT NULL,
    formula  TEXT NOT NULL,   -- for people
    tensors  TEXT NOT NULL,   -- JSON: name, type and shape of inputs and outputs
    UNIQUE (op_hash, sizes, machine, threads)
);
CREATE TABLE records (
    id            INTEGER PRIMARY KEY,
    task          INTEGER NOT NULL REFERENCES tasks (id),
    template      TEXT NOT NULL,
    parameters    TEXT NOT NULL,   -- JSON
    schedule_hash TEXT NOT NULL,
    schedule      TEXT NOT NULL,   -- JSON, the saved schedule; 'null' when there is none
    outcome       TEXT NOT NULL,
    reason        TEXT NOT NULL,
    least         REAL,            -- seconds
    median        REAL,
    spread        REAL,
    samples       INTEGER,
    final_seconds REAL,
    build_seconds REAL NOT NULL,
    features_version INTEGER NOT NULL DEFAULT 0,
    features      BLOB,            -- float32, little endian
    seed          INTEGER NOT NULL,
    created       TEXT NOT NULL,
    estimated_seconds REAL,        -- by the analytical estimate
    predicted     REAL,            -- the model's score: greater is faster
    origin        TEXT NOT NULL DEFAULT '',
    UNIQUE (task, schedule_hash)
);
)";

} // namespace

void create_tables(Connection &c) {
    c.run(schema);
    c.run(("PRAGMA application_id = " + std::to_string(database_application_id)).c_str());
    c.run(("PRAGMA user_version = " + std::to_string(database_format_version)).c_str());
}

std::vector<std::string> migration_from(int version) {
    switch (version) {
    case 1:
        return {"ALTER TABLE records ADD COLUMN estimated_seconds REAL",
                "ALTER TABLE records ADD COLUMN predicted REAL",
                "ALTER TABLE records ADD COLUMN origin TEXT NOT NULL DEFAULT ''", "PRAGMA user_version = 2"};
    default:
        throw InternalError("there is no migration from format version " + std::to_string(version));
    }
}

std::string record_columns(int version) {
    return std::string("r.template, r.parameters, r.schedule_hash, r.schedule, r.outcome, r.reason, r.least, r.median, "
                       "r.spread, r.samples, r.final_seconds, r.build_seconds, r.seed, r.created, r.features_version, "
                       "r.features, ") +
           (version >= 2 ? "r.estimated_seconds, r.predicted, r.origin" : "NULL, NULL, NULL");
}

} // namespace kumiko
