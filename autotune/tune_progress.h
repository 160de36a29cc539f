// Progress output of tuning.
#pragma once

#include "autotune/tune.h"
#include "support/progress.h"

#include <memory>

namespace kumiko {

// Uses style Quiet if nothing is to be shown.
std::unique_ptr<Progress> make_progress(const TuneOptions &options, const std::string &title, int total);
// Also shown without a progress bar, because the user should know what tuning waits for.
void show_notice(const TuneOptions &options, Progress *progress, const std::string &text);

} // namespace kumiko
