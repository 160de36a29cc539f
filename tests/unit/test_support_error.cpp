// The error types, and places in messages.
#include "support/error.h"

#include <doctest/doctest.h>

using namespace kumiko;

TEST_CASE("the three error types are distinct and keep their text") {
    CHECK_THROWS_WITH_AS(throw UserError("no axis 'k'"), "no axis 'k'", UserError);
}

TEST_CASE("an error has its message and its place separately") {
    const std::string message = "X: error: is part of this message";
    const auto here = std::source_location::current();
    const std::string place = "test_support_error.cpp:" + std::to_string(here.line());
    const auto check = [&](const PlacedError &e, const std::string &where, const std::string &what) {
        CHECK(e.place() == where);
        CHECK(e.message() == message);
        CHECK(e.what() == what);
    };
    check(UserError(message), "", message);
    check(UserError(here, message), place, place + ": error: " + message);
    check(Unsupported(message), "", message);
    check(Unsupported(here, message), place, place + ": unsupported: " + message);
}

TEST_CASE("a message without the places that it names") {
    const UserError e("finish_in(\"s\") makes compute_at(\"Y\", \"i\") (rows.cpp:12), which is pending, illegal");
    CHECK(e.message_without_places() == "finish_in(\"s\") makes compute_at(\"Y\", \"i\"), which is pending, illegal");
    CHECK(UserError("split(\"i\", 4) (as written)").message_without_places() == "split(\"i\", 4) (as written)");
}
