// The loops of stages as text, one loop a line, each deeper by two.
#pragma once

#include "schedules/state.h"

#include <string>

namespace kumiko {

// One stage; `marked` gets "← note" behind it, and the innermost loop "← innermost".
std::string stage_text(const StageState &stage, const std::string &marked = "", const std::string &note = "");

// The whole nest: every stage where it is computed.
std::string nest_text(const ScheduleState &state);

// A nest as text that can also be written as a page to click through: each loop and stage folds what stands inside it.
class NestText : public std::string {
public:
    NestText(std::string text, std::string title) : std::string(std::move(text)), title_(std::move(title)) {}

    // A page that needs no other file.
    std::string to_html() const;
    // Writes it. Throws UserError when the file cannot be written.
    void html(const std::string &file) const;

private:
    std::string title_;
};

} // namespace kumiko
