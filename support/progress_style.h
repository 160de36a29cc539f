// Styles of progress output.
#pragma once

namespace kumiko {

// How progress is printed.
enum class ProgressStyle {
    Quiet, // nothing
    Plain, // a line at most every two seconds, and one at the end; for logs
    Bar    // one line, redrawn up to ten times per second; for terminals
};

} // namespace kumiko
