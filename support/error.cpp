#include "support/error.h"

#include <regex>

namespace kumiko {

namespace {

std::string text_of(const std::source_location &where) {
    if (where.line() == 0) return ""; // unknown
    std::string file = where.file_name();
    if (auto slash = file.rfind('/'); slash != std::string::npos) file = file.substr(slash + 1);
    return file + ":" + std::to_string(where.line());
}

} // namespace

std::string PlacedError::message_without_places() const {
    static const std::regex place(" \\([^ ()]+:[0-9]+\\)");
    return std::regex_replace(message(), place, "");
}

PlacedError::PlacedError(const std::source_location &where, const char *kind, const std::string &message)
    : PlacedError(text_of(where), where.line() == 0 ? "" : std::string(": ") + kind + ": ", message) {}

PlacedError::PlacedError(const std::string &place, const std::string &kind, const std::string &message)
    : std::runtime_error(place + kind + message), place_(place.size()), message_(place.size() + kind.size()) {}

} // namespace kumiko
