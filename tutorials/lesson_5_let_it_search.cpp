// Lesson 5: let it search.
//
// tune() measures schedules of the library template that matches the op. Each is first checked
// against the formula, in a process of its own, so that a crash only costs one candidate. Results
// are kept in a database: a second call continues where the first ended, and the best schedule can
// be read from it at any time. On the command line:
//
//   kumiko tune matmul --shape m=96,n=96,k=96 --trials 12 --db tuning.db
//   kumiko tune ./libmyops.so:group_norm_silu --shape N=2,G=8,C=4,H=32,W=32    an op of yours:
//                                                                              ops/export.h
//   kumiko best matmul --shape m=96,n=96,k=96 --db tuning.db --as cpp          as C++ source
#include "driver/kumiko.h"

#include <filesystem>
#include <iostream>

using namespace kumiko;

int main() {
    const std::string database = "lesson_5.db";
    for (const char *part : {"", "-wal", "-shm"}) std::filesystem::remove(database + part);
    Op op = ops::matmul(f32, 96, 96, 96);

    TuneReport report;
    Record best =
        tune(op, Target::host(), {.trials = 12, .database = database, .threads = 1, .trial_seconds = 0.01}, &report);
    std::cout << report.measured << " schedules measured; the best takes " << best.seconds() * 1e6
              << " us, the default " << report.default_seconds * 1e6 << " us\n"
              << "its parameters: " << best.parameters.dump() << "\n"
              << best.schedule(op).to_cpp();

    Kernel k = compile(best.schedule(op), Target::host());
    Buffer<float> a = random({96, 96}), b = random({96, 96}), c({96, 96});
    k(a, b, c);
    check_close(c, interpret(op, a, b), {.relative = 1e-4, .absolute = 1e-4});

    // Known schedules are not measured again.
    TuneReport again;
    tune(op, Target::host(), {.trials = 12, .database = database, .threads = 1}, &again);
    if (again.measured != 0 || again.known != report.measured)
        throw UserError("the second session should have known all that the first one measured");

    // Another program reads the database.
    auto known = tuned_schedule(op, Machine::host(), database, {.threads = 1});
    if (!known) throw UserError("the database should know a schedule");
    std::cout << "the database: " << known->rate << "\n";
}
