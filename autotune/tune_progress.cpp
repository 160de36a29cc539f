#include "autotune/tune_progress.h"

namespace kumiko {

namespace {

std::ostream &no_stream() {
    static std::ostream none(nullptr);
    return none;
}

} // namespace

std::unique_ptr<Progress> make_progress(const TuneOptions &options, const std::string &title, int total) {
    const bool shown = options.progress && !options.quiet;
    auto progress =
        std::make_unique<Progress>(shown ? *options.progress : no_stream(),
                                   shown ? options.style : ProgressStyle::Quiet, title, total, options.columns);
    if (options.seconds > 0) progress->set_most(options.seconds);
    return progress;
}

void show_notice(const TuneOptions &options, Progress *progress, const std::string &text) {
    if (!options.progress) return;
    if (progress && !options.quiet)
        progress->line(text);
    else
        *options.progress << text << std::endl;
}

} // namespace kumiko
