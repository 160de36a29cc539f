// Loop nests as text, one loop per line, each level indented by two.
#pragma once

#include "schedules/state.h"

#include <string>

namespace kumiko {

// One stage. The loop `marked` is followed by "← note", and the innermost one by "← innermost".
std::string stage_text(const StageState &stage, const std::string &marked = "", const std::string &note = "");

// The whole nest; each stage is shown where it is computed.
std::string nest_text(const ScheduleState &state);

// A nest as text, which can be exported as a collapsible HTML page.
class NestText : public std::string {
public:
    NestText(std::string text, std::string title) : std::string(std::move(text)), title_(std::move(title)) {}

    // A self-contained HTML page.
    std::string to_html() const;
    // Writes the page. Throws UserError if the file cannot be written.
    void html(const std::string &file) const;

private:
    std::string title_;
};

} // namespace kumiko
