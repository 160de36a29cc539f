// kumiko db: inspects and maintains a tuning database.
#include "cli/common.h"

#include "autotune/database_care.h"
#include "autotune/database_lines.h"
#include "autotune/features/chip_features.h"
#include "autotune/report.h"
#include "autotune/tune.h"
#include "support/atomic_file.h"
#include "support/duration.h"
#include "support/table.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

namespace kumiko::cli {

namespace {

std::string text_of(const Sizes &sizes) {
    std::string text;
    for (const auto &[name, value] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
    return text;
}

void list(const std::string &file, const std::string &json) {
    const Database database(file, Database::Mode::Read);
    Table table({"op", "formula", "sizes", "machine", "threads", "records", "good", "best"});
    Json all = Json::array();
    for (const Database::TaskSummary &t : database.tasks()) {
        table.row({t.key.op, t.key.op_hash.substr(0, 8), text_of(t.key.sizes), t.key.machine,
                   std::to_string(t.key.threads), std::to_string(t.records), std::to_string(t.ok),
                   t.best_seconds > 0 ? duration_text(t.best_seconds) : "-"});
        all.push_back({{"op", t.key.op},
                       {"formula_hash", t.key.op_hash},
                       {"formula", t.formula},
                       {"sizes", t.key.sizes},
                       {"machine", t.key.machine},
                       {"threads", t.key.threads},
                       {"records", t.records},
                       {"ok", t.ok},
                       {"best_seconds", t.best_seconds > 0 ? Json(t.best_seconds) : Json(nullptr)}});
    }
    if (json != "-") std::cout << table.text();
    write_json(json, all);
}

void print_counts(const std::string &title, const std::map<std::string, int> &counts) {
    std::cout << title;
    std::string separator = ": ";
    for (const auto &[name, n] : counts)
        std::cout << std::exchange(separator, ", ") << n << " " << (name.empty() ? "not known" : name);
    std::cout << "\n";
}

void stats(const std::string &file, const std::string &json) {
    const DatabaseStats s = database_stats(Database(file, Database::Mode::Read));
    if (json != "-") {
        std::cout << fmt::format("{}: format version {}, {}\n", file, s.version,
                                 bytes_text(static_cast<double>(s.bytes)));
        std::cout << fmt::format(
            "{} records of {} tasks, {} of them trials, {} with features of version {} (nests) or {} (chips)\n",
            s.records, s.tasks.size(), s.trials, s.with_features, features_version, chip_features_version);
        if (s.records > 0) {
            std::cout << "from " << s.oldest << " to " << s.newest << "\n";
            print_counts("outcomes", s.outcomes);
            print_counts("found by", s.origins);
            print_counts("machines", s.machines);
            Table table({"op", "tensors", "threads", "machine", "records", "good", "best"});
            for (const Database::TaskSummary &t : s.tasks)
                table.row({t.key.op, tensors_text(t.tensors), std::to_string(t.key.threads), t.key.machine,
                           std::to_string(t.records), std::to_string(t.ok),
                           t.best_seconds > 0 ? duration_text(t.best_seconds) : "-"});
            std::cout << "\n" << table.text();
        }
    }
    write_json(json, s.json());
}

void export_lines(const std::string &file, const std::string &out) {
    const Database database(file, Database::Mode::Read);
    if (out.empty() || out == "-") {
        write_lines(database, std::cout);
        return;
    }
    // The export is written to a temporary file first, so that it is complete or absent. Anything
    // but a regular file, such as a pipe, is written to directly.
    std::error_code ignored;
    const bool place = std::filesystem::exists(out, ignored) && !std::filesystem::is_regular_file(out, ignored);
    const std::string part = place ? out : out + ".part";
    const auto fail = [&](const std::string &cause) {
        if (!place) std::filesystem::remove(part, ignored);
        throw UserError("cannot write " + out + ": " + cause);
    };
    errno = 0;
    std::ofstream stream(part, std::ios::binary | std::ios::trunc);
    if (!stream) throw UserError("cannot write " + out + ": " + std::strerror(errno));
    errno = 0;
    write_lines(database, stream);
    stream.close();
    if (!stream) fail(errno ? std::strerror(errno) : "the disk may be full");
    std::error_code error;
    if (!place) std::filesystem::rename(part, out, error);
    if (error) fail(error.message());
}

// A database opened for writing; if it was created here, it is removed again if this ends early.
class Written {
public:
    explicit Written(const std::string &file) : file_(file), made_(!std::filesystem::exists(file)), database_(file) {}
    ~Written() {
        if (done_ || !made_) return;
        database_.reset();
        std::error_code ignored;
        for (const char *suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file_ + suffix, ignored);
    }
    Database &operator*() { return *database_; }
    void done() { done_ = true; }

private:
    std::string file_;
    bool made_, done_ = false;
    std::optional<Database> database_;
};

bool is_lines(const std::string &file) { return file.ends_with(".jsonl"); }

void merge_all(const std::string &into, const std::vector<std::string> &from, const std::string &json) {
    Written database(into);
    MergeCount all;
    (*database).in_transaction([&] {
        for (const std::string &file : from) {
            if (!is_lines(file)) {
                all += merge(*database, Database(file, Database::Mode::Read));
                continue;
            }
            std::ifstream in(file, std::ios::binary);
            if (!in || std::filesystem::is_directory(file))
                throw UserError(file +
                                ": cannot be read: " + (in ? "it is a folder" : std::string(std::strerror(errno))));
            all += merge_lines(*database, in, file);
        }
    });
    database.done();
    if (json != "-")
        std::cout << fmt::format("{}: {} records are new, {} were extended or improved, {} were known\n", into,
                                 all.added, all.better, all.same);
    write_json(json, {{"added", all.added}, {"better", all.better}, {"same", all.same}});
}

// Applies prune's checks before the file is opened for writing.
void prune_dry(const std::string &file, PruneOptions options) {
    options.dry_run = true;
    Database database(file, Database::Mode::Read);
    prune(database, options);
}

void prune_records(const std::string &file, const PruneOptions &options, const std::string &json) {
    if (!options.dry_run) prune_dry(file, options);
    Database database(file, options.dry_run ? Database::Mode::Read : Database::Mode::ReadWrite);
    const int64_t before = database_stats(database).bytes;
    const PruneCount count = prune(database, options);
    const int64_t after = database_stats(database).bytes;
    if (json != "-") {
        std::cout << fmt::format("{}: {} records {}, {} {}\n", file, count.removed,
                                 options.dry_run ? "would be removed" : "were removed", count.left,
                                 options.dry_run ? "would remain" : "remain");
        if (count.tasks_removed > 0) std::cout << count.tasks_removed << " tasks with them\n";
        if (!count.not_compacted.empty()) std::cout << "the file was not made smaller: " << count.not_compacted << "\n";
        if (!options.dry_run)
            std::cout << fmt::format("{} before, {} now\n", bytes_text(static_cast<double>(before)),
                                     bytes_text(static_cast<double>(after)));
    }
    write_json(json, {{"removed", count.removed},
                      {"left", count.left},
                      {"tasks_removed", count.tasks_removed},
                      {"dry_run", options.dry_run},
                      {"bytes_before", before},
                      {"bytes", after}});
}

struct PageArguments {
    std::vector<std::string> ops;
    std::string file, shape, type, out, cost_model;
};

// A page of the tasks of some ops, or of all. With one op's shape there is one formula with a known
// amount of work, so that rates can be shown.
void report(const PageArguments &a) {
    const Database database(a.file, Database::Mode::Read);
    std::vector<ReportTask> tasks;
    if (a.shape.empty() && a.type.empty()) {
        tasks = report_tasks(database, a.ops);
    } else {
        if (a.ops.size() != 1) throw UserError("--shape and --type belong to one op: name it alone");
        const OpArguments arguments{a.ops[0], a.shape, a.type, ""};
        const Op op = arguments.op();
        for (ReportTask &t : report_tasks(database)) {
            if (t.task.key.op_hash != op.hash()) continue;
            t.work = count_work(op, t.task.key.sizes);
            tasks.push_back(std::move(t));
        }
        if (tasks.empty()) throw UserError(a.file + " has no records of " + arguments.text());
    }
    write_file_atomically(a.out, report_page(tasks, {.model = cost_model_named(a.cost_model)}));
}

struct DatabaseArguments {
    std::string file = "tuning.db", out, json;
    std::vector<std::string> from;
    PruneOptions prune;
    int keep = 0;
};

CLI::App *add_part(CLI::App &db, const std::string &name, const std::string &text, DatabaseArguments &a) {
    CLI::App *part = db.add_subcommand(name, text);
    part->add_option("file", a.file, "the database")->required();
    return part;
}

void add_db_stats(CLI::App &db, const std::shared_ptr<DatabaseArguments> &a) {
    auto *stats_part = add_part(db, "stats", "print the number of records of each kind, and the best of each task", *a);
    add_json_option(*stats_part, a->json);
    add_examples(*stats_part, "  kumiko db stats tuning.db");
    stats_part->callback([a] { stats(a->file, a->json); });
}

void add_db_export(CLI::App &db, const std::shared_ptr<DatabaseArguments> &a) {
    auto *export_part = add_part(db, "export", "write every record as a line of JSON", *a);
    export_part->add_option("--out", a->out, "file to write; the standard output by default")->type_name("FILE.jsonl");
    add_examples(*export_part, "  kumiko db export tuning.db --out tuning.jsonl");
    export_part->callback([a] { export_lines(a->file, a->out); });
}

void add_db_import(CLI::App &db, const std::shared_ptr<DatabaseArguments> &a) {
    auto *import_part = add_part(db, "import", "add the records of an export, all of them or none", *a);
    import_part->add_option("lines", a->from, "files that `kumiko db export` wrote")->required()->expected(1);
    add_json_option(*import_part, a->json);
    add_examples(*import_part, "  kumiko db import tuning.db other.jsonl");
    import_part->callback([a] {
        if (!is_lines(a->from[0]))
            throw UserError(a->from[0] + " is not an export (.jsonl); kumiko db merge takes databases");
        merge_all(a->file, a->from, a->json);
    });
}

void add_db_merge(CLI::App &db, const std::shared_ptr<DatabaseArguments> &a) {
    auto *merge_part = add_part(
        db, "merge",
        "add the records of other databases, all of them or none; of two records of one candidate, the better is kept",
        *a);
    merge_part->add_option("from", a->from, "databases, or exports (.jsonl)")->required();
    add_json_option(*merge_part, a->json);
    add_examples(*merge_part, "  kumiko db merge tuning.db from-the-server.db colleague.jsonl");
    merge_part->callback([a] { merge_all(a->file, a->from, a->json); });
}

void add_db_report(CLI::App &db) {
    auto *report_part = db.add_subcommand("report", "write a page about tuning: curves, predictions, failures");
    auto page = std::make_shared<PageArguments>();
    report_part->add_option("file", page->file, "the database")->required();
    report_part->add_option("ops", page->ops, "operators, by their names in the database; all by default");
    report_part
        ->add_option("--shape", page->shape, "shape of one operator, as for `kumiko tune`; the page then shows rates")
        ->type_name("NAME=VALUE,...");
    report_part->add_option("--type", page->type, "of the elements")->type_name("TYPE");
    report_part->add_option("--out", page->out, "the page")->type_name("FILE.html")->required();
    report_part
        ->add_option(
            "--cost-model", page->cost_model,
            "cost model for the explanations, instead of the one that comes with Kumiko; none: no explanations")
        ->type_name("FILE");
    add_examples(
        *report_part,
        "  kumiko db report tuning.db --out tuning.html\n  kumiko db report tuning.db matmul --shape "
        "m=512,n=512,k=512 --out matmul.html\nWithout --shape, all shapes of an op are included, and rates are "
        "left out.");
    report_part->callback([page] { report(*page); });
}

void add_db_prune(CLI::App &db, const std::shared_ptr<DatabaseArguments> &a) {
    auto *prune_part = add_part(db, "prune", "remove records, and make the file smaller", *a);
    auto *keep = prune_part->add_option("--keep", a->keep, "keep only the fastest N records of each task")
                     ->type_name("N")
                     ->check(CLI::Range(0, 1 << 30));
    prune_part->add_flag("--failed", a->prune.failed, "remove failures, which may then be tried again");
    prune_part
        ->add_option("--older-than", a->prune.older_than_days, "only records that are older than this number of days")
        ->type_name("DAYS")
        ->check(above_zero());
    prune_part
        ->add_option("--machine", a->prune.machine,
                     "only records of this machine, of any mode or of the one named; `kumiko db stats` lists them")
        ->type_name("ID");
    prune_part->add_flag("--dry-run", a->prune.dry_run, "only print how many records would be removed");
    add_json_option(*prune_part, a->json);
    add_examples(*prune_part,
                 "  kumiko db prune tuning.db --keep 50 --failed\n"
                 "  kumiko db prune tuning.db --older-than 90 --keep 10 --dry-run\n"
                 "  kumiko db prune tuning.db --machine old_server-0123456789ab\n"
                 "Without --keep and --failed, all records that --older-than and --machine select are removed.");
    prune_part->callback([a, keep] {
        if (keep->count()) a->prune.keep = a->keep;
        prune_records(a->file, a->prune, a->json);
    });
}

} // namespace

void add_db(CLI::App &app) {
    auto *command = app.add_subcommand("db", "list the contents of a tuning database; export, merge and prune it");
    command->require_subcommand(0, 1);
    auto a = std::make_shared<DatabaseArguments>();
    auto *file = command->add_option("file", a->file, "the database")->capture_default_str();
    command->add_option("--db", a->file, "the same, as in the other commands")->type_name("FILE")->excludes(file);
    add_json_option(*command, a->json);
    add_examples(*command,
                 "  kumiko db tuning.db\n  kumiko db stats tuning.db\n  kumiko db export tuning.db --out t.jsonl\n"
                 "  kumiko db import other.db t.jsonl\n  kumiko db merge all.db one.db two.db three.jsonl\n"
                 "  kumiko db prune tuning.db --keep 50 --failed");
    command->callback([a, command] {
        if (command->get_subcommands().empty()) list(a->file, a->json);
    });
    add_db_stats(*command, a);
    add_db_export(*command, a);
    add_db_import(*command, a);
    add_db_merge(*command, a);
    add_db_report(*command);
    add_db_prune(*command, a);
}

} // namespace kumiko::cli
