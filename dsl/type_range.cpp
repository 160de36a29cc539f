#include "dsl/type_range.h"

namespace kumiko {

namespace {

// The float type represents all integers up to 2 to this power.
int digits(Type t) {
    if (t.is_bfloat()) return 8;
    return t.bits() == 16 ? 11 : t.bits() == 32 ? 24 : 53;
}

} // namespace

bool has_all_values(Type wide, Type narrow) {
    if (wide.is_float() && narrow.is_float())
        return wide == narrow || (wide.bits() > narrow.bits() && digits(wide) > digits(narrow));
    if (wide.is_float()) return narrow.bits() - (narrow.is_int() ? 1 : 0) <= digits(wide);
    if (narrow.is_float() || (narrow.is_int() && !wide.is_int())) return false;
    return wide.bits() >= narrow.bits() + (wide.is_int() && narrow.is_uint() ? 1 : 0);
}

} // namespace kumiko
