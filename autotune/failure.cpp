#include "autotune/failure.h"

#include "support/error.h"

#include <cctype>

namespace kumiko {

std::optional<std::string> failure_of(const std::function<void()> &f) {
    std::string reason;
    try {
        f();
        return std::nullopt;
    } catch (const Halide::Error &e) {
        reason = std::string("Halide: ") + e.what();
    } catch (const PlacedError &e) {
        reason = e.message_without_places(); // the places are in the sources of spaces
    } catch (const std::exception &e) {
        reason = e.what();
    } catch (...) {
        reason = "an error of an unknown kind";
    }
    return reason.substr(0, reason.find('\n'));
}

std::string failure_kind(const Record &r) {
    const std::string &text = r.reason;
    std::string kind;
    for (size_t i = 0; i < text.size(); i++) {
        const auto digit = [&](size_t k) {
            return k < text.size() && std::isdigit(static_cast<unsigned char>(text[k]));
        };
        if (!digit(i) || (i > 0 && std::isalpha(static_cast<unsigned char>(text[i - 1])))) {
            kind += text[i];
            continue;
        }
        while (digit(i + 1) || (i + 1 < text.size() && text[i + 1] == '.' && digit(i + 2))) i++;
        kind += "#";
    }
    return outcome_name(r.outcome) + ": " + kind;
}

} // namespace kumiko
