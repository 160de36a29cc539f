// The entry point of every test executable: doctest's, with filters and options such as
// `--test-case=NAME`. A filter that matches no test case is an error. A test that cannot run here
// says MESSAGE("left out: why"); if nothing fails, the exit status then tells ctest that the test
// was skipped. `--level=x86-64-avx2` runs the test as on a processor of that level (level.h).
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/level.h"

#include <cstdio>
#include <string_view>

namespace {

constexpr int skipped = 77; // SKIP_RETURN_CODE of tests/CMakeLists.txt

unsigned cases = 0;    // that passed the filters
unsigned left_out = 0; // messages

struct Count : doctest::IReporter {
    explicit Count(const doctest::ContextOptions &) {}
    void report_query(const doctest::QueryData &) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats &s) override { cases = s.numTestCasesPassingFilters; }
    void test_case_start(const doctest::TestCaseData &) override {}
    void test_case_reenter(const doctest::TestCaseData &) override {}
    void test_case_end(const doctest::CurrentTestCaseStats &) override {}
    void test_case_exception(const doctest::TestCaseException &) override {}
    void subcase_start(const doctest::SubcaseSignature &) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData &) override {}
    void log_message(const doctest::MessageData &m) override {
        left_out += std::string_view(m.m_string.c_str()).starts_with("left out: ");
    }
    void test_case_skipped(const doctest::TestCaseData &) override {}
};

} // namespace

REGISTER_LISTENER("count", 1, Count);

int main(int argc, char **argv) {
    constexpr std::string_view option = "--level=";
    for (int i = 1; i < argc; i++) {
        if (!std::string_view(argv[i]).starts_with(option)) continue;
        if (!kumiko::limit_level) {
            std::fprintf(stderr, "%s: this test generates no code\n", argv[i]);
            return 1;
        }
        const std::string missing = kumiko::limit_level(argv[i] + option.size());
        if (!missing.empty()) {
            std::fprintf(stderr, "skipped: %s\n", missing.c_str());
            return skipped;
        }
    }
    doctest::Context context(argc, argv);
    const int result = context.run();
    if (result == 0 && left_out > 0) {
        std::fprintf(stderr, "skipped: %u left out, as the messages say; all else passes\n", left_out);
        return skipped;
    }
    if (context.shouldExit() || result || cases || argc == 1)
        return result; // queries, as --list-test-cases, run nothing
    std::fputs("no test case passes these filters\n", stderr);
    return 1;
}
