// The reference page matches the records, and a nest is printed as a page.
#include "schedules/examples.h"
#include "schedules/page.h"
#include "schedules/primitive.h"
#include "schedules/schedule.h"
#include "support/error.h"

#include <doctest/doctest.h>
#include <fstream>
#include <sstream>

using namespace kumiko;

TEST_CASE("docs/primitives.md is fresh") {
    std::ifstream in(KUMIKO_SOURCE_DIR "/docs/primitives.md");
    std::stringstream text;
    text << in.rdbuf();
    const std::string page = primitives_page();
    if (text.str() != page) {
        std::ofstream(KUMIKO_BINARY_DIR "/primitives.md") << page;
        FAIL("docs/primitives.md is not what the records say; the fresh page is " KUMIKO_BINARY_DIR
             "/primitives.md: copy it");
    }
}

TEST_CASE("every primitive documents its requirements") {
    for (const Primitive *p : primitives()) {
        INFO(p->name);
        CHECK(std::string(p->summary).back() == '.');
        CHECK(std::string(p->requires_).back() == '.');
        CHECK_NOTHROW(check_arguments(*p, p->example.call));
        CHECK(p->example.call.primitive == p->name);
    }
}

TEST_CASE("a nest as a page to click through") {
    Schedule s(example_op("matmul"));
    s.stage("C").parallel("i");
    const std::string page = s.nest().to_html();
    CHECK(page.find("<details open><summary><span class=\"parallel\">parallel i in 0..128</span></summary>") !=
          std::string::npos);
    size_t open = 0, closed = 0;
    for (size_t at = 0; (at = page.find("<details", at)) != std::string::npos; at++) open++;
    for (size_t at = 0; (at = page.find("</details>", at)) != std::string::npos; at++) closed++;
    CHECK(open == closed);
    CHECK(open == 4);
    CHECK_THROWS_AS(s.nest().html("/nowhere/nest.html"), UserError);
}
