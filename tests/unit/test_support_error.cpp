#include "support/error.h"

#include <doctest/doctest.h>

TEST_CASE("the three errors are told apart and keep their text") {
    CHECK_THROWS_WITH_AS(throw kumiko::UserError("no axis 'k'"), "no axis 'k'", kumiko::UserError);
}
