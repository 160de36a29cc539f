// Comparison of buffers, and the report of their differences.
#include "dsl/buffer_elements.h"
#include "dsl/types.h"

#include <bit>
#include <cmath>

namespace kumiko {

double element(const halide_buffer_t *b, const std::vector<int64_t> &index) {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); d++) offset += index[d] * axis_stride(b, d);
    return read_element(b->type, b->host + offset * Type(b->type).bytes());
}

namespace {

// Compares element by element; `bad` decides whether two values differ too much. Returns the
// report, empty if all agree.
std::string compare(const Buffer<> &actual, const Buffer<> &expected,
                    const std::function<bool(const std::vector<int64_t> &, double, double)> &bad) {
    if (actual.extents() != expected.extents()) {
        return "the shapes differ: " + describe(actual.raw_buffer()) + " and " + describe(expected.raw_buffer());
    }
    int64_t count = 0, total = 0;
    double worst = -1;
    std::string first, largest;
    for_each_element(actual.raw_buffer(), [&](const std::vector<int64_t> &index, uint8_t *p) {
        total++;
        const double a = read_element(actual.type(), p), e = element(expected.raw_buffer(), index);
        if (!bad(index, a, e)) return;
        const std::string text = list_text(index) + ": " + fmt::format("{} where {} is expected", a, e);
        if (!count++) first = text;
        const double size = std::isnan(a - e) ? std::numeric_limits<double>::infinity() : std::abs(a - e);
        if (size > worst) {
            worst = size;
            largest = text;
        }
    });
    if (!count) return "";
    return fmt::format("{} of {} elements differ; the first at {}; the largest at {}", count, total, first, largest);
}

} // namespace

void check_close(const Buffer<> &actual, const Buffer<> &expected, const Tolerance &t) {
    double largest = 0;
    for_each_element(expected.raw_buffer(), [&](const auto &, uint8_t *p) {
        const double e = std::abs(read_element(expected.type(), p));
        if (std::isfinite(e)) largest = std::max(largest, e);
    });
    const std::string report = compare(actual, expected, [&](const auto &, double a, double e) {
        if (std::isnan(a) || std::isnan(e)) return std::isnan(a) != std::isnan(e);
        return a != e && !(std::abs(a - e) <= t.absolute + t.relative * largest);
    });
    if (!report.empty()) throw UserError(report);
}

void check_within(const Buffer<> &actual, const Buffer<> &expected, const Buffer<> &bound) {
    const std::string report = compare(actual, expected, [&](const std::vector<int64_t> &index, double a, double e) {
        const double b = element(bound.raw_buffer(), index);
        if (std::isnan(b) || std::isinf(b)) return false; // no bound can be given
        if (std::isnan(a) || std::isnan(e)) return std::isnan(a) != std::isnan(e);
        return a != e && !(std::abs(a - e) <= b);
    });
    if (!report.empty()) throw UserError(report);
}

std::string difference(const Buffer<> &actual, const Buffer<> &expected) {
    if (actual.type() != expected.type()) {
        return "the types differ: " + type_name(actual.type()) + " and " + type_name(expected.type());
    }
    const Type t = actual.type();
    return compare(actual, expected, [&](const std::vector<int64_t> &index, double a, double e) {
        if (std::isnan(a) && std::isnan(e)) return false;
        if (t.is_float() || t.bits() <= 32) return std::bit_cast<uint64_t>(a) != std::bit_cast<uint64_t>(e);
        const auto bits = [&](const Buffer<> &b) {
            int64_t offset = 0;
            for (size_t d = 0; d < index.size(); d++) offset += index[d] * b.stride(d);
            return reinterpret_cast<const uint64_t *>(b.raw_buffer()->host)[offset];
        };
        return bits(actual) != bits(expected);
    });
}

} // namespace kumiko
