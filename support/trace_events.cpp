#include "support/trace_events.h"

#include "support/json.h"

#include <fmt/format.h>

#include <iterator>

namespace kumiko {

std::string json_quoted(const std::string &text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void TraceEvents::process(int id, const std::string &name) {
    meta(id, 0, "process_name", "\"name\":" + json_quoted(name));
}

void TraceEvents::track(int process, int id, const std::string &name) {
    meta(process, id, "thread_name", "\"name\":" + json_quoted(name));
    meta(process, id, "thread_sort_index", fmt::format("\"sort_index\":{}", id));
}

void TraceEvents::slice(int process, int track, double begin, double end, const std::string &name,
                        const std::string &arguments) {
    fmt::format_to(std::back_inserter(out_),
                   "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{:.6f},\"dur\":{:.6f},\"name\":{},\"args\":{{{}}}}},\n",
                   process, track, begin * scale_, (end - begin) * scale_, name, arguments);
}

std::string TraceEvents::finish(const std::string &title, const std::string &label) const {
    return "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"title\":" + json_quoted(title) + "},\"traceEvents\":[\n" +
           out_ + "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_labels\",\"args\":{\"labels\":" + json_quoted(label) +
           "}}\n]}\n";
}

void TraceEvents::meta(int process, int track, const char *kind, const std::string &arguments) {
    fmt::format_to(std::back_inserter(out_),
                   "{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{{}}}}},\n", process, track, kind,
                   arguments);
}

} // namespace kumiko
