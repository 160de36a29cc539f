#include "dsl/types.h"

#include "dsl/narrow_types.h"
#include "support/error.h"

namespace kumiko {

namespace {

const std::vector<std::pair<const char *, Type>> &named_types() {
    static const std::vector<std::pair<const char *, Type>> table = {
        {"bool", Bool()},     {"i8", Int(8)},     {"i16", Int(16)},  {"i32", Int(32)},  {"i64", Int(64)},
        {"u8", UInt(8)},      {"u16", UInt(16)},  {"u32", UInt(32)}, {"u64", UInt(64)}, {"f16", Float(16)},
        {"bf16", BFloat(16)}, {"f32", Float(32)}, {"f64", Float(64)}};
    return table;
}

} // namespace

std::string type_name(Type type) {
    for (const auto &[name, t] : named_types()) {
        if (t == type.element_of())
            return type.lanes() == 1 ? name : std::string(name) + "x" + std::to_string(type.lanes());
    }
    if (const NarrowFloat *f = narrow_float(type)) return f->name;
    if (is_narrow(type)) return (type.is_int() ? "i" : "u") + std::to_string(type.bits());
    if (type.is_handle() && type.lanes() == 1) return "string";
    return Halide::type_to_c_type(type, false);
}

Type type_from_name(const std::string &name) {
    std::string all;
    for (const auto &[n, t] : named_types()) {
        if (name == n) return t;
        all += (all.empty() ? "" : ", ") + std::string(n);
    }
    throw UserError("unknown type \"" + name + "\"; the types are " + all);
}

} // namespace kumiko
