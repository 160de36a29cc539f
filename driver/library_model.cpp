#include "driver/library_model.h"

#include "driver/library_files.h"
#include "dsl/narrow_types.h"
#include "runtime/kumiko_runtime.h"
#include "support/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

namespace kumiko {

namespace {

// The names of the model's variables in texts.
std::vector<std::string> variable_names(const LibraryModel &m) {
    std::vector<std::string> names;
    for (const LibrarySize &s : m.sizes)
        names.push_back(s.step == 1 ? s.field : fmt::format("({} / {})", s.field, s.step));
    return names;
}

std::string shape_of(const LibraryModel &m, const LibraryTensor &t) {
    std::vector<std::string> extents;
    for (size_t d = 0; d < t.extents.size(); d++)
        extents.push_back((int(d) == t.sized_axis ? "up to " : "") + t.extents[d].text(variable_names(m)));
    const std::string shape = fmt::format("{}[{}]", type_name(t.type), fmt::join(extents, ", "));
    if (t.sized_axis < 0) return shape;
    return fmt::format("{}; *{} is the extent of axis {}, in which it is dense", shape, t.size, t.sized_axis);
}

// A number, or the text of a polynomial.
Json number_json(const LibraryModel &m, const Polynomial &p) {
    const auto constant = p.constant();
    return constant ? Json(*constant) : Json(p.text(variable_names(m)));
}

Json tensors_json(const LibraryModel &m, const std::vector<LibraryTensor> &tensors) {
    Json all = Json::array();
    for (const LibraryTensor &t : tensors) {
        Json shape = Json::array();
        for (const Polynomial &e : t.extents) shape.push_back(number_json(m, e));
        all.push_back({{"name", t.name}, {"origin", t.origin}, {"type", type_name(t.type)}, {"shape", shape}});
        if (t.sized_axis >= 0) all.back()["size"] = {{"axis", t.sized_axis}, {"output", t.size}};
    }
    return all;
}

// A text inside of a comment of C: it neither ends the comment nor seems to begin another one.
std::string in_comment(const std::string &text) {
    std::string made;
    for (const char c : text) {
        const char before = made.empty() ? ' ' : made.back();
        if ((before == '*' && c == '/') || (before == '/' && c == '*')) made += ' ';
        made += c;
    }
    return made;
}

size_t count_steps(const std::vector<LibraryStep> &steps) {
    size_t count = steps.size();
    for (const LibraryStep &step : steps) {
        for (const auto &list : step.lists) count += count_steps(list);
    }
    return count;
}

size_t most_steps(const LibraryModel &m) {
    size_t most = 0;
    for (const LibraryProgram &p : m.programs) most = std::max(most, count_steps(p.steps));
    return most;
}

} // namespace

std::vector<int64_t> variables_of(const LibraryModel &model, const std::vector<int64_t> &sizes) {
    std::vector<int64_t> made;
    for (size_t s = 0; s < sizes.size(); s++) made.push_back(sizes[s] / model.sizes.at(s).step);
    return made;
}

std::vector<int64_t> LibraryTensor::extents_at(const std::vector<int64_t> &variables) const {
    std::vector<int64_t> made;
    for (const Polynomial &e : extents) made.push_back(e.value(variables));
    return made;
}

int64_t LibraryTensor::elements(const std::vector<int64_t> &variables) const {
    int64_t n = 1;
    for (const int64_t e : extents_at(variables)) n *= e;
    return n;
}

int64_t arena_bytes_of(const LibraryProgram &program, const std::vector<int64_t> &variables) {
    std::vector<std::optional<int64_t>> ends(program.blocks.size());
    const std::function<int64_t(size_t)> end_of = [&](size_t b) {
        if (ends[b]) return *ends[b];
        int64_t begin = 0;
        for (const size_t below : program.blocks[b].below) begin = std::max(begin, end_of(below));
        return *(ends[b] = begin + (program.blocks[b].bytes.value(variables) + 63) / 64 * 64);
    };
    int64_t most = 0;
    for (size_t b = 0; b < ends.size(); b++) most = std::max(most, end_of(b));
    return most;
}

int state_alignment(const LibraryModel &model) {
    int bytes = 1;
    for (const LibraryState &s : model.states) bytes = std::max(bytes, s.type.bytes());
    return bytes;
}

std::string weights_file(const LibraryModel &m) {
    std::string header(KUMIKO_WEIGHTS_HEADER, '\0');
    const auto set = [&](size_t at, int bytes, uint64_t number) {
        for (int i = 0; i < bytes; i++) header[at + size_t(i)] = static_cast<char>(number >> (8 * i));
    };
    header.replace(0, 8, KUMIKO_WEIGHTS_MARK);
    set(8, 4, 1);
    set(16, 8, header.size() + m.data.size());
    set(24, 8, kumiko_hash_weights(m.data.data(), m.data.size()));
    return header + m.data;
}

std::string c_element_type(Type type) {
    const Type t = stored_type(type);
    if (t.is_bool()) return "uint8_t";
    if (t.is_float()) return t.bits() == 64 ? "double" : t.bits() == 32 ? "float" : "uint16_t";
    return fmt::format("{}int{}_t", t.is_uint() ? "u" : "", t.bits());
}

std::string model_declarations(const std::string &library, const LibraryModel &m) {
    const auto upper = [](std::string text) {
        std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
        return text;
    };
    const std::string big = upper(m.name), library_big = upper(library);
    std::string states;
    if (m.state_bytes > 0) {
        states =
            fmt::format("#define {}_STATE_BYTES {} /* that a run leaves to the next one: */\n", big, m.state_bytes);
        for (const LibraryState &s : m.states)
            states +=
                fmt::format("/*   from byte {} on: \"{}\", then \"{}\", {}[{}] */\n", s.offset, in_comment(s.origin),
                            in_comment(s.next), type_name(s.type), fmt::join(s.extents, ", "));
    }
    std::string sizes,
        arena = fmt::format("#define {}_ARENA_BYTES {} /* of the arena, with the workspaces of kernels */\n", big,
                            m.arena_bytes);
    if (!m.sizes.empty()) {
        arena = fmt::format("#define {}_ARENA_BYTES_MOST {} /* enough for all sizes */\n", big, m.arena_bytes);
        sizes =
            fmt::format("/* The sizes that a call chooses. Shapes follow from them; quotients are rounded down. */\n"
                        "typedef struct {}_sizes {{\n",
                        m.name);
        for (const LibrarySize &s : m.sizes)
            sizes += fmt::format("    int64_t {}; /* \"{}\": {} to {}{} */\n", s.field, in_comment(s.name), s.least,
                                 s.most, s.step == 1 ? "" : fmt::format(" in steps of {}", s.step));
        sizes += fmt::format("}} {}_sizes;\n", m.name);
    }
    std::string text = fmt::format(
        "\n/* The model {0}: the function {1}_run, its arrays, and its memory. All arrays are dense, the last axis\n"
        " * inside. Elements of bool are 0 or 1; those of f16 and bf16 are their bits. */\n{3}"
        "#define {2}_ARENA_ALIGNMENT 64 /* bytes */\n{9}"
        "#define {2}_WEIGHTS_BYTES {4} /* of weights in the {8} */\n"
        "#define {2}_STACK_BYTES {7} /* of each thread, without hooks, the thread pool and the C library */\n"
        "#define {2}_STEPS {5} /* at most, that hooks are called for; manifest.json lists them */\n"
        "#define {2}_THREADS {6} /* at most so many run a loop that needs workspaces */\n{10}"
        "typedef struct {1}_io {{\n",
        in_comment(m.origin), m.name, big, arena, m.data.size(), most_steps(m), m.threads, m.stack_bytes,
        m.weights_file ? "file" : "library", states, sizes);
    for (const LibraryTensor &t : m.inputs)
        text += fmt::format("    const {} *{}; /* input \"{}\": {} */\n", c_element_type(t.type), t.name,
                            in_comment(t.origin), shape_of(m, t));
    for (const LibraryTensor &t : m.outputs)
        text += fmt::format("    {} *{}; /* output \"{}\": {} */\n", c_element_type(t.type), t.name,
                            in_comment(t.origin), shape_of(m, t));
    if (m.state_bytes > 0)
        text += fmt::format("    void *state; /* {}_STATE_BYTES bytes, aligned to {}; {}_reset() sets it before the "
                            "first run */\n",
                            big, state_alignment(m), m.name);
    if (m.weights_file)
        text += fmt::format(
            "    const void *weights; /* contents of {}.weights, aligned to 64 bytes; may be mapped */\n", m.name);
    if (!m.sizes.empty()) text += fmt::format("    const {}_sizes *sizes;\n", m.name);
    return text +
           fmt::format("}} {0}_io;\n"
                       "/* Computes the outputs. `arena`: {1} bytes that no other call uses at the same "
                       "time; their\n * contents do not matter before or after. `context`: hooks of this run, or NULL. "
                       "Returns 0, or a code\n * of the status, with a text in the error. Any number of threads may "
                       "call it, each with an arena of its\n * own. It allocates nothing. */\n"
                       "int {0}_run(const {0}_io *io, void *arena, const kumiko_context *context);\n",
                       m.name, m.sizes.empty() ? big + "_ARENA_BYTES" : m.name + "_arena_bytes(io->sizes)") +
           (m.sizes.empty()
                ? ""
                : fmt::format("/* Bytes of the arena for these sizes. Returns -1, with a text in the error, "
                              "if one is out of range. */\n"
                              "int64_t {0}_arena_bytes(const {0}_sizes *sizes);\n",
                              m.name)) +
           (m.state_bytes > 0 ? fmt::format("/* Sets the states to those before the first run: zeros. `state`: "
                                            "{1}_STATE_BYTES bytes. */\n"
                                            "void {0}_reset(void *state);\n",
                                            m.name, big)
                              : "") +
           (m.weights_file ? fmt::format("/* Checks the contents of {0}.weights, which {0}_run only recognises by "
                                         "their first 64 bytes: size, version\n * and a hash of all bytes. Returns 0 "
                                         "or {1}_BAD_WEIGHTS. */\n"
                                         "int {0}_check_weights(const void *file, size_t bytes);\n",
                                         m.name, library_big)
                           : "");
}

namespace {

std::vector<SequenceStep> sequence_steps(const LibraryModel &m, const std::vector<LibraryStep> &steps,
                                         const std::vector<PackagedKernel> &kernels) {
    std::vector<SequenceStep> made;
    for (const LibraryStep &step : steps) {
        made.push_back(step);
        if (step.kernel) {
            const PackagedKernel &kernel = kernels.at(*step.kernel);
            made.back().symbol = kernel.symbol;
            for (const std::string &size : kernel.nest().sizes) {
                size_t n = 0;
                while (m.sizes.at(n).symbol != size) n++;
                made.back().sizes.push_back(n);
            }
        }
        for (const auto &list : step.lists) made.back().lists.push_back(sequence_steps(m, list, kernels));
    }
    return made;
}

Json pointer_json(const LibraryModel &m, const SequencePointer &p) {
    using Base = SequencePointer::Base;
    const char *base = p.base == Base::Tensor ? "tensor" : p.base == Base::Data ? "weights" : "arena";
    Json json = {{base, p.base == Base::Tensor ? Json(p.tensor) : number_json(m, p.offset)}};
    if (p.block >= 0) json["block"] = p.block;
    if (p.base == Base::Tensor && p.offset != 0) json["offset"] = number_json(m, p.offset);
    if (p.stride != 0) json["stride"] = number_json(m, p.stride), json["loop"] = p.loop;
    return json;
}

Json steps_json(const LibraryModel &m, const std::vector<LibraryStep> &steps) {
    Json all = Json::array();
    for (const LibraryStep &s : steps) {
        Json step = {{"nodes", s.nodes}, {"operators", s.operators}, {"arguments", Json::array()}};
        if (s.workspace)
            step["workspace"] =
                s.workspace->block < 0 ? number_json(m, s.workspace->offset) : pointer_json(m, *s.workspace);
        const char *kind = s.check            ? "check of indices"
                           : s.selection      ? "selection"
                           : s.loop           ? "loop"
                           : !s.lists.empty() ? "branch"
                                              : "copy";
        step["kernel"] = s.kernel ? Json(*s.kernel) : Json(kind);
        for (const SequencePointer &p : s.arguments) step["arguments"].push_back(pointer_json(m, p));
        for (const auto &list : s.lists) step["lists"].push_back(steps_json(m, list));
        if (s.loop) {
            step["iterations"] = s.loop->trips == -1 ? Json(nullptr) : number_json(m, s.loop->trips);
            step["most_iterations"] = s.loop->most;
        }
        all.push_back(step);
    }
    return all;
}

Json blocks_json(const LibraryModel &m, const std::vector<SequenceSizes::Block> &blocks) {
    Json all = Json::array();
    for (const SequenceSizes::Block &b : blocks)
        all.push_back({{"bytes", number_json(m, b.bytes)}, {"below", b.below}});
    return all;
}

} // namespace

std::vector<Sequence> model_sequences(const LibraryDescription &library, const LibraryModel &m,
                                      const std::vector<PackagedKernel> &kernels) {
    Sequence s;
    s.name = m.name + "_run";
    for (const auto *tensors : {&m.inputs, &m.outputs}) {
        for (const LibraryTensor &t : *tensors) s.tensors.push_back(t.name);
    }
    s.arena = m.arena_bytes > 0;
    if (m.state_bytes > 0) {
        s.reset = {m.name + "_reset", m.state_bytes};
        s.tensors.push_back("state");
    }
    if (m.weights_file) {
        s.weights = {s.tensors.size(), m.name + "_check_weights", m.name, KUMIKO_WEIGHTS_HEADER + m.data.size(),
                     kumiko_hash_weights(m.data.data(), m.data.size())};
        s.tensors.push_back("weights");
    } else if (!m.data.empty()) {
        s.data = fmt::format("{}_{}_weights", library.name, m.name);
    }
    if (!m.sizes.empty()) {
        s.sizes = SequenceSizes{s.tensors.size(), {m.sizes.begin(), m.sizes.end()}, {}, m.name + "_arena_bytes"};
        s.tensors.push_back("sizes");
    }
    std::vector<Sequence> all;
    for (const LibraryProgram &p : m.programs) {
        s.steps = sequence_steps(m, p.steps, kernels);
        if (s.sizes) s.sizes->blocks = p.blocks;
        s.target = p.target;
        all.push_back(s);
        s.reset.reset(); // once
        if (s.weights) s.weights->check.clear();
    }
    return all;
}

Json model_manifest(const LibraryModel &m) {
    Json states = Json::array();
    for (const LibraryState &s : m.states)
        states.push_back({{"input", s.origin},
                          {"output", s.next},
                          {"type", type_name(s.type)},
                          {"shape", s.extents},
                          {"offset", s.offset}});
    Json sizes = Json::array();
    for (const LibrarySize &s : m.sizes)
        sizes.push_back({{"name", s.name}, {"field", s.field}, {"least", s.least}, {"most", s.most}, {"step", s.step}});
    Json programs = Json::array();
    for (const LibraryProgram &p : m.programs)
        programs.push_back({{"target", p.target.empty() ? Json(nullptr) : Json(p.target)},
                            {"steps", steps_json(m, p.steps)},
                            {"blocks", blocks_json(m, p.blocks)}});
    return {{"name", m.name},
            {"origin", m.origin},
            {"symbol", m.name + "_run"},
            {"inputs", tensors_json(m, m.inputs)},
            {"outputs", tensors_json(m, m.outputs)},
            {"sizes", sizes},
            {"arena_bytes", m.arena_bytes},
            {"arena_bound", m.arena_bound},
            {"threads", m.threads},
            {"stack_bytes", m.stack_bytes},
            {"weights_bytes", m.data.size()},
            {"weights_file", m.weights_file ? Json(m.name + ".weights") : Json(nullptr)},
            {"state_bytes", m.state_bytes},
            {"states", states},
            {"programs", programs}};
}

} // namespace kumiko
