#include "autotune/failure.h"

#include <cctype>

namespace kumiko {

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
