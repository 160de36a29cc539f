// Traces for ui.perfetto.dev, in the JSON form of trace events.
#pragma once

#include <string>

namespace kumiko {

// The text in quotation marks, as in JSON. Bytes that are no UTF-8 are replaced.
std::string json_quoted(const std::string &text);

// Slices on tracks, which belong to processes. Perfetto draws slices of one track that contain each
// other below one another. They must not overlap otherwise.
class TraceEvents {
public:
    // `microseconds`: of one unit of the times below.
    explicit TraceEvents(double microseconds) : scale_(microseconds) {}

    void process(int id, const std::string &name);
    // Tracks are shown in the order of their numbers.
    void track(int process, int id, const std::string &name);
    // `name`: quoted. `arguments`: the members of a JSON object, such as "\"bytes\":12".
    void slice(int process, int track, double begin, double end, const std::string &name, const std::string &arguments);
    // The trace. `label`: a remark beside the first process's name.
    std::string finish(const std::string &title, const std::string &label) const;

private:
    void meta(int process, int track, const char *kind, const std::string &arguments);

    double scale_;
    std::string out_;
};

} // namespace kumiko
