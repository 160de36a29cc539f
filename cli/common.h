// Shared code of the subcommands.
#pragma once

#include "autotune/model/cost_model.h"
#include "driver/library.h"
#include "dsl/op.h"
#include "schedules/schedule.h"
#include "support/json.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>

namespace kumiko::cli {

// Each adds its subcommand; the work is done in CLI11's callback, which throws Kumiko's errors.
void add_ops(CLI::App &app);
void add_show(CLI::App &app);
void add_run(CLI::App &app);
void add_tune(CLI::App &app);
void add_worker(CLI::App &app);
void add_learn(CLI::App &app);
void add_best(CLI::App &app);
void add_db(CLI::App &app);
void add_build(CLI::App &app);
void add_bench(CLI::App &app);
void add_machine(CLI::App &app);
void add_docs(CLI::App &app);
void add_sim(CLI::App &app);

// An op on the command line: its name in the registry, --shape and --type.
struct OpArguments {
    std::string name, shape, type, sizes;

    // "OP", "--shape", "--type" and "--sizes"
    void add_to(CLI::App &command, bool required = true);
    Json parameters() const; // complete
    Op op() const;
    std::map<std::string, int64_t> bound_sizes() const;
    // Throws UserError for values of sizes that the op does not have.
    void check_sizes(const Op &op) const;
    // Also throws UserError if a size of the op has no value.
    void require_sizes(const Op &op) const;
    // As typed on the command line: "matmul --shape m=M,n=64,k=64 --type f16 --sizes M=100".
    std::string text() const;
};

// Selects a schedule: from a file, from a tuning database, the library's with parameters, or the
// default.
struct ScheduleArguments {
    std::string file, database, parameters;
    int threads = 0;
    bool cold = false;  // from the database, those tuned for cold caches
    bool ahead = false; // take pre-packed weights
    bool force = false; // apply a file saved for another op

    void add_to(CLI::App &command);
    // `origin` is set to a word for it: "default", "tuned", … For a default, `candidate` is set to
    // its name (driver/default_schedule.h); otherwise to "".
    Schedule schedule(const Op &op, const Machine &machine, std::string *origin = nullptr,
                      std::string *candidate = nullptr) const;
};

// The model for --cost-model: a file, "none" for an untrained one; for "" null, which means the
// model shipped with Kumiko.
std::shared_ptr<const CostModel> cost_model_named(const std::string &name);

// Thrown by a subcommand that Control-C has ended properly, after reporting it: exit status 130, as
// after a signal.
struct Interrupted {};

// Adds "--json FILE".
void add_json_option(CLI::App &command, std::string &file);
// Writes the value to the file; "-" means the standard output. Does nothing if `file` is empty.
void write_json(const std::string &file, const Json &value);

// Throws UserError if the file's folder does not exist: before an hour of measuring, not after.
// Does nothing for "" and "-".
void require_folder_of(const std::string &file);

// Validators for numeric options.
CLI::Validator above_zero();
CLI::Validator not_below_zero();

// Adds examples to the end of the help text.
void add_examples(CLI::App &command, const std::string &text);

} // namespace kumiko::cli
