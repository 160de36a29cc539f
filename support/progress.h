// A progress bar: on a terminal one line that is redrawn, elsewhere a plain line now and then, or nothing.
//   tuning matmul [######----------] 96/256  112.4 GFLOP/s  0:41 left
//
// Library code does not print: a Progress writes to the stream that its maker hands in, which is the program's to choose.
#pragma once

#include "support/duration.h"
#include "support/progress_style.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <string>

namespace kumiko {

// Bar on a terminal, Plain otherwise. `descriptor` is a file descriptor, usually 2.
ProgressStyle progress_style(int descriptor, bool quiet = false);

// How many columns the terminal has by now; 0 where the descriptor is none.
int terminal_columns(int descriptor);

class Progress {
public:
    // `total` is the number of steps, 0 when unknown. The stream must outlive the Progress. A line of the style Bar has less than
    // columns() characters, so that it can be redrawn: it goes without the bar, then without its end. Null, or 0: as many as it takes.
    Progress(std::ostream &out, ProgressStyle style, std::string title, int64_t total,
             std::function<int()> columns = nullptr);
    ~Progress(); // finishes
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    // Now `done` steps are done; `note` is what to show beside the bar, such as the best so far.
    void update(int64_t done, const std::string &note = "");
    void advance(const std::string &note = "") { update(done_ + 1, note); }
    void set_total(int64_t total) { total_ = total; }
    // So many were done before, and say nothing of the pace.
    void set_known(int64_t done) { known_ = done_ = done; }
    // It will end after this time in any case.
    void set_most(double seconds) { most_ = seconds; }
    // Prints the last state and goes to a new line. Later updates do nothing.
    void finish(const std::string &note = "");
    // Prints a line of its own above the bar.
    void line(const std::string &text);

    // Expected seconds left by the mean pace so far, at most what set_most leaves; negative when unknown.
    double seconds_left() const;

private:
    std::string state(bool bar) const;
    std::string fitting() const;
    size_t room() const; // characters of a line
    void draw();

    std::ostream &out_;
    ProgressStyle style_;
    std::string title_, note_;
    int64_t total_, done_ = 0, known_ = 0;
    double most_ = std::numeric_limits<double>::infinity();
    std::function<int()> columns_;
    Stopwatch watch_;
    double drawn_at_ = -1e9;
    size_t drawn_width_ = 0;
    bool finished_ = false;
};

} // namespace kumiko
