#include "support/error.h"

namespace kumiko {

namespace {

std::string located(const std::source_location &where, const char *kind, const std::string &message) {
    std::string file = where.file_name();
    if (auto slash = file.rfind('/'); slash != std::string::npos) file = file.substr(slash + 1);
    return file + ":" + std::to_string(where.line()) + ": " + kind + ": " + message;
}

} // namespace

UserError::UserError(const std::source_location &where, const std::string &message)
    : std::runtime_error(located(where, "error", message)) {}

Unsupported::Unsupported(const std::source_location &where, const std::string &message)
    : std::runtime_error(located(where, "unsupported", message)) {}

} // namespace kumiko
