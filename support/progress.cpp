#include "support/progress.h"

#include <algorithm>
#include <cstdio>
#include <exception>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/ioctl.h>
#include <unistd.h>
#endif

namespace kumiko {

ProgressStyle progress_style(int descriptor, bool quiet) {
    if (quiet) return ProgressStyle::Quiet;
#if defined(__unix__) || defined(__APPLE__)
    if (isatty(descriptor)) return ProgressStyle::Bar;
#endif
    return ProgressStyle::Plain;
}

int terminal_columns(int descriptor) {
#if defined(__unix__) || defined(__APPLE__)
    winsize size{};
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0) return size.ws_col;
#endif
    return 0;
}

namespace {

// Counts characters, not bytes.
size_t characters_in(const std::string &text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

} // namespace

Progress::Progress(std::ostream &out, ProgressStyle style, std::string title, int64_t total,
                   std::function<int()> columns)
    : out_(out), style_(style), title_(std::move(title)), total_(total), columns_(std::move(columns)) {}

Progress::~Progress() {
    if (style_ == ProgressStyle::Plain && std::uncaught_exceptions() > exceptions_) return;
    finish(note_);
}

double Progress::seconds_left() const {
    if (total_ <= 0 || done_ <= known_) return -1;
    const double each = phase_watch_.seconds() / static_cast<double>(done_ - known_);
    return std::min(each * static_cast<double>(std::max<int64_t>(0, total_ - done_)),
                    std::max(0.0, most_ - watch_.seconds()));
}

// Usable characters per line. Some terminals wrap when the last column is written.
size_t Progress::room() const {
    const int columns = columns_ ? columns_() : 0;
    return columns <= 0 ? std::string::npos : static_cast<size_t>(std::max(1, columns - 1));
}

std::string Progress::fitting() const {
    std::string text = state(true);
    const size_t most = room();
    if (characters_in(text) > most) text = state(false);
    while (characters_in(text) > most) {
        while ((text.back() & 0xc0) == 0x80) text.pop_back();
        text.pop_back();
    }
    return text;
}

std::string Progress::state(bool bar) const {
    std::string out = title_;
    if (total_ > 0) {
        if (bar) {
            constexpr int64_t width = 24;
            int64_t full = std::clamp<int64_t>(done_ * width / total_, 0, width);
            out += " [" + std::string(full, '#') + std::string(width - full, '-') + "]";
        }
        out += " " + std::to_string(done_) + "/" + std::to_string(total_);
    } else if (done_ > 0 || !phases_) {
        out += " " + std::to_string(done_);
    }
    if (!note_.empty()) out += "  " + note_;
    if (finished_) return out + "  " + duration_text(watch_.seconds());
    if (double left = seconds_left(); left >= 0) {
        auto whole = static_cast<long long>(left + 0.5);
        char text[48];
        std::snprintf(text, sizeof text, "  %lld:%02lld left", whole / 60, whole % 60);
        out += text;
    }
    return out;
}

void Progress::draw() {
    drawn_ = true;
    if (style_ == ProgressStyle::Bar) {
        std::string text = fitting();
        const size_t width = characters_in(text);
        const size_t before = std::min(drawn_width_, room());
        // Overwrites the rest of a longer line.
        if (width < before) text += std::string(before - width, ' ');
        out_ << '\r' << text << (finished_ ? "\n" : "") << std::flush;
        drawn_width_ = width;
    } else {
        out_ << state(false) << "\n" << std::flush;
    }
}

void Progress::begin_phase(const std::string &title, int64_t total) {
    if (finished_) return;
    title_ = title, total_ = total;
    done_ = known_ = 0;
    phases_ = true;
    phase_watch_.restart();
    if (style_ == ProgressStyle::Bar)
        update(0);
    else
        note_.clear(), drawn_at_ = watch_.seconds();
}

void Progress::update(int64_t done, const std::string &note) {
    if (finished_) return;
    done_ = done;
    note_ = note;
    if (style_ == ProgressStyle::Quiet) return;
    double now = watch_.seconds();
    double pause = style_ == ProgressStyle::Bar ? 0.1 : 2.0;
    if (now - drawn_at_ < pause) return;
    drawn_at_ = now;
    draw();
}

void Progress::line(const std::string &text) {
    if (style_ == ProgressStyle::Quiet) return;
    if (style_ == ProgressStyle::Bar && drawn_width_ > 0) {
        out_ << '\r' << std::string(std::min(drawn_width_, room()), ' ') << '\r';
        drawn_width_ = 0;
    }
    out_ << text << "\n" << std::flush;
    drawn_at_ = -1e9;
}

void Progress::finish(const std::string &note) {
    if (finished_) return;
    finished_ = true;
    note_ = note;
    const bool brief = style_ == ProgressStyle::Plain && phases_ && !drawn_;
    if (style_ != ProgressStyle::Quiet && !brief) draw();
}

} // namespace kumiko
