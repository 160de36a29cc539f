// A progress bar: on a terminal one line that is redrawn, otherwise a line from time to time, or
// nothing.
//   tuning matmul [######----------] 96/256  112.4 GFLOP/s  0:41 left
//
// Library code does not print: a Progress writes to the stream that the program passes in.
#pragma once

#include "support/duration.h"
#include "support/progress_style.h"

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <ostream>
#include <string>

namespace kumiko {

// Bar if `descriptor`, usually 2, is a terminal, otherwise Plain.
ProgressStyle progress_style(int descriptor, bool quiet = false);

// The current width of the terminal in columns; 0 if the descriptor is not a terminal.
int terminal_columns(int descriptor);

class Progress {
public:
    // `total`: number of steps, 0 if unknown. The stream must outlive the Progress. With style Bar,
    // a line has fewer than columns() characters so that it can be redrawn: if it is too long, the
    // bar is dropped, then the end. If `columns` is null or returns 0, the length is unlimited.
    Progress(std::ostream &out, ProgressStyle style, std::string title, int64_t total,
             std::function<int()> columns = nullptr);
    // Finishes. If an exception ends the work, a Plain progress prints nothing more.
    ~Progress();
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    // Reports that `done` steps are done. `note` is shown next to the bar, for example the best
    // result so far.
    void update(int64_t done, const std::string &note = "");
    void advance(const std::string &note = "") { update(done_ + 1, note); }
    void set_total(int64_t total) { total_ = total; }
    // Begins the next phase of the work on the same line: nothing of it is done, and it has a pace
    // of its own. A Plain progress prints a line of a phase after 2 s, and nothing if no phase
    // takes so long. The final state has the seconds of all phases.
    void begin_phase(const std::string &title, int64_t total);
    // Sets the steps that were done earlier; they do not count for the pace.
    void set_known(int64_t done) { known_ = done_ = done; }
    // An upper limit on the total time.
    void set_most(double seconds) { most_ = seconds; }
    // Prints the final state and a newline. Later updates have no effect.
    void finish(const std::string &note = "");
    // Prints a separate line above the bar.
    void line(const std::string &text);

    // Estimated seconds left at the mean pace, at most what set_most leaves; negative if unknown.
    double seconds_left() const;

private:
    std::string state(bool bar) const;
    std::string fitting() const;
    size_t room() const; // characters per line
    void draw();

    std::ostream &out_;
    ProgressStyle style_;
    std::string title_, note_;
    int64_t total_, done_ = 0, known_ = 0;
    double most_ = std::numeric_limits<double>::infinity();
    std::function<int()> columns_;
    Stopwatch watch_, phase_watch_;
    double drawn_at_ = -1e9;
    size_t drawn_width_ = 0;
    bool finished_ = false, phases_ = false, drawn_ = false;
    const int exceptions_ = std::uncaught_exceptions();
};

} // namespace kumiko
