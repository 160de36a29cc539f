// Text of durations, amounts, tables and progress.
#include "support/duration.h"
#include "support/error.h"
#include "support/progress.h"
#include "support/table.h"
#include "tests/unit/count.h"

#include <doctest/doctest.h>

#include <sstream>

using namespace kumiko;

TEST_CASE("durations and amounts") {
    CHECK(duration_text(0) == "0 s");
    CHECK(duration_text(8.2e-7) == "820 ns");
    CHECK(duration_text(1.351e-3) == "1.35 ms");
    CHECK(duration_text(0.9999) == "1.00 s");
    CHECK(duration_text(125) == "2 min 05 s");
    CHECK(duration_text(3725) == "1 h 02 min");
    CHECK(duration_text(-1) == "?");
    CHECK(bytes_text(64) == "64 B");
    CHECK(bytes_text(1536) == "1.5 KiB");
    CHECK(bytes_text(32 << 20) == "32 MiB");
}

TEST_CASE("tables set numbers to the right") {
    Table t({"kernel", "GFLOP/s"});
    t.row({"matmul", "112.5"});
    t.row({"conv", "9.1"});
    CHECK(t.text() == "kernel  GFLOP/s\n"
                      "------  -------\n"
                      "matmul    112.5\n"
                      "conv        9.1\n");
    CHECK(t.markdown() == "| kernel | GFLOP/s |\n| --- | --- |\n| matmul | 112.5 |\n| conv | 9.1 |\n");
}

TEST_CASE("progress: quiet, plain and a bar") {
    std::ostringstream quiet, plain, bar;
    {
        Progress p(quiet, ProgressStyle::Quiet, "work", 2);
        p.advance();
    }
    CHECK(quiet.str().empty());
    {
        Progress p(plain, ProgressStyle::Plain, "work", 4);
        for (int i = 0; i < 4; i++) p.advance("best " + std::to_string(i));
    }
    CHECK(plain.str().substr(0, 16) == "work 1/4  best 0");
    CHECK(plain.str().find("work 4/4  best 3") != std::string::npos);
    CHECK(plain.str().find('\r') == std::string::npos);
    {
        Progress p(bar, ProgressStyle::Bar, "work", 2);
        p.update(1);
        p.finish("done");
    }
    CHECK(bar.str().substr(0, 34) == "\rwork [############------------] 1");
    CHECK(bar.str().back() == '\n');
    CHECK(progress_style(2, true) == ProgressStyle::Quiet);
}

TEST_CASE("the time left is estimated from this session's steps, and has an upper limit") {
    std::ostringstream out;
    Progress p(out, ProgressStyle::Quiet, "work", 1000000);
    p.set_known(10);
    p.update(10);
    CHECK(p.seconds_left() < 0);
    p.update(11);
    CHECK(p.seconds_left() >= 0);
    p.set_most(0);
    CHECK(p.seconds_left() == 0);
}

TEST_CASE("phases of work share a line, and each has its own pace") {
    std::ostringstream bar, plain;
    {
        Progress p(bar, ProgressStyle::Bar, "reading", 0);
        p.begin_phase("rewriting", 0);
        p.begin_phase("compiling", 3);
        CHECK(p.seconds_left() < 0); // nothing of the phase is done
        p.update(2, "kernel");
        CHECK(p.seconds_left() >= 0);
        p.begin_phase("linking", 2);
        CHECK(p.seconds_left() < 0);
        p.update(2);
    }
    CHECK(bar.str().starts_with("\rrewriting"));
    CHECK(bar.str().find("\rlinking [########################] 2/2  ") != std::string::npos);
    CHECK_EQ(count(bar.str(), "\n"), 1);
    { // short phases are not shown
        Progress p(plain, ProgressStyle::Plain, "reading", 0);
        p.begin_phase("rewriting", 0);
        p.begin_phase("compiling", 3);
        p.update(2);
    }
    CHECK_EQ(plain.str(), "");
}

TEST_CASE("a plain progress of failed work prints nothing after it") {
    std::ostringstream plain;
    try {
        Progress p(plain, ProgressStyle::Plain, "work", 4);
        throw UserError("failed");
    } catch (const UserError &) {
    }
    CHECK_EQ(plain.str(), "");
}

TEST_CASE("a bar fits into the terminal's width") {
    const auto drawn = [](int columns, const std::string &note) {
        std::ostringstream bar;
        Progress p(bar, ProgressStyle::Bar, "work", 2, [columns] { return columns; });
        p.finish(note);
        const std::string text = bar.str();
        return text.substr(1, text.size() - 2);
    };
    CHECK(drawn(0, std::string(200, 'x')).size() > 200);
    CHECK(drawn(80, "best").starts_with("work [------------------------] 0/2  best  "));
    CHECK(drawn(30, "best 3").starts_with("work 0/2  best 3  ")); // without the bar
    CHECK(drawn(30, std::string(60, 'x')) == "work 0/2  " + std::string(19, 'x'));
    CHECK(drawn(16, "3 × faster") == "work 0/2  3 × f"); // characters, not bytes
    CHECK(drawn(15, "3 × faster") == "work 0/2  3 × ");
    CHECK(drawn(1, "best") == "w");
}
