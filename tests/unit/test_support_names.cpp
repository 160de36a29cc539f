// Identifiers, suggestions, unique names, random numbers and hashes.
#include "support/error.h"
#include "support/hash.h"
#include "support/names.h"
#include "support/random.h"

#include <doctest/doctest.h>

#include <set>

using namespace kumiko;

TEST_CASE("identifiers") {
    for (const char *good : {"i", "_", "A1", "batch_size"}) CHECK(is_identifier(good));
    for (const char *bad : {"", "1a", "a-b", "a b", "int", "template", "é"}) CHECK_FALSE(is_identifier(bad));
    CHECK(to_identifier("1x1 conv") == "_1x1_conv");
    CHECK(to_identifier("for") == "_for");
    CHECK_NOTHROW(require_identifier("k", "axis"));
    CHECK_THROWS_WITH_AS(
        require_identifier("a-b", "axis"),
        "axis name 'a-b' is not an identifier; use letters, digits and '_', not beginning with a digit, for "
        "example 'a_b'",
        UserError);
}

TEST_CASE("suggestions") {
    CHECK(edit_distance("kitten", "sitting") == 3);
    CHECK(edit_distance("ab", "ba") == 1);
    CHECK(edit_distance("", "abc") == 3);
    CHECK(nearest_name("vectorise", {"unroll", "vectorize"}) == "vectorize");
    CHECK(nearest_name("x", {"i", "j"}).empty());
    CHECK(suggest("l2", {"L1", "L2"}) == " (did you mean 'L2'?)");
    CHECK(suggest("q", {"i", "j"}) == "; there are: i, j");
    CHECK(suggest("median", {"", "max"}) == "; there are: \"\", max");
    CHECK(suggest("q", {}).empty());
    CHECK(quoted_list({"a", "b", "c"}) == "'a', 'b' and 'c'");
}

TEST_CASE("unique names") {
    UniqueNames names;
    CHECK(names.fresh("t") == "t");
    CHECK(names.fresh("t") == "t_1");
    CHECK_FALSE(names.take("t_1"));
    CHECK(names.fresh("t") == "t_2");
}

TEST_CASE("random numbers are the same everywhere") {
    Random r(42);
    CHECK(r() == 0x15780b2e0c2ec716ULL);
    Random a(7), b(7), c(8);
    CHECK(a() == b());
    CHECK(a() != c());
    std::set<int64_t> seen;
    for (int i = 0; i < 1000; i++) {
        int64_t n = a.between(-2, 3);
        CHECK(n >= -2);
        CHECK(n <= 3);
        seen.insert(n);
        double x = a.real();
        CHECK(x >= 0);
        CHECK(x < 1);
    }
    CHECK(seen.size() == 6);
    CHECK(a.between(INT64_MIN, INT64_MAX) != a.between(INT64_MIN, INT64_MAX));
}

TEST_CASE("hashes are the same everywhere") {
    CHECK(hash_hex("kumiko").size() == 32);
    CHECK(hash_hex("kumiko") == hash_hex("kumiko"));
    CHECK(hash_hex("a") != hash_hex("b"));
    CHECK(Hasher().text("ab").text("c").hex() != Hasher().text("a").text("bc").hex());
    std::set<std::string> seen;
    for (uint64_t i = 0; i < 10000; i++) seen.insert(Hasher().number(i).hex());
    CHECK(seen.size() == 10000);
}
