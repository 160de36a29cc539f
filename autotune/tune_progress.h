// What tuning shows of itself on the way.
#pragma once

#include "autotune/tune.h"
#include "support/progress.h"

#include <memory>

namespace kumiko {

// Of no style but Quiet where nothing is to be shown.
std::unique_ptr<Progress> make_progress(const TuneOptions &options, const std::string &title, int total);
// Without a bar, too: who waits for nothing should know.
void show_notice(const TuneOptions &options, Progress *progress, const std::string &text);

} // namespace kumiko
