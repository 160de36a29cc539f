#include "bench/model_peers.h"

#include "dsl/types.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace kumiko::bench {

namespace {

constexpr int profiled_runs = 11;

// The type in the requests of bench/peer_process.py.
std::string peer_type(Type t) {
    const std::string name = type_name(t);
    return name[0] == 'i' ? "s" + name.substr(1) : name;
}

} // namespace

ModelPeer::ModelPeer(PythonPeer &process, const std::string &file, const graph::Program &program,
                     const std::vector<Buffer<>> &inputs, const std::map<std::string, Buffer<>> &constants, int threads)
    : process_(process) {
    Json request = {{"do", "make"},
                    {"threads", threads},
                    {"model", std::filesystem::absolute(file).string()},
                    {"inputs", Json::array()},
                    {"outputs", Json::array()}};
    const auto add = [&](const char *list, const std::string &name, Type type, const std::vector<int64_t> &shape,
                         size_t bytes) {
        files_.push_back(std::make_unique<SharedFile>(bytes));
        request[list].push_back(
            {{"name", name}, {"type", peer_type(type)}, {"shape", shape}, {"file", files_.back()->path()}});
    };
    const auto add_input = [&](const std::string &name, const Buffer<> &b) {
        add("inputs", name, b.type(), b.extents(), b.size_in_bytes());
        files_.back()->write(b.data());
    };
    for (size_t n = 0; n < inputs.size(); n++) add_input(program.inputs[n].name, inputs[n]);
    for (const auto &[name, value] : constants) add_input(name, value.copy());
    first_output_ = files_.size();
    // Peers know only the model's own outputs.
    for (size_t n = 0; n < program.model_outputs; n++) {
        const graph::ProgramTensor &o = program.outputs[n];
        add("outputs", o.name, o.type, o.extents, size_t(o.bytes()));
        request["outputs"].back()["bounded"] = std::any_of(program.sized.begin(), program.sized.end(),
                                                           [&](const graph::SizedOutput &s) { return s.output == n; });
    }
    const Json answer = process_.ask(request);
    if (answer.contains("refused"))
        refusal_ = answer.at("refused").get<std::string>();
    else
        id_ = answer.at("id").get<int64_t>();
}

ModelPeer::~ModelPeer() {
    try {
        if (id_ >= 0) process_.ask({{"do", "drop"}, {"id", id_}});
    } catch (const std::exception &) { // the process has ended
    }
}

double ModelPeer::run(int times) {
    return process_.ask({{"do", "run"}, {"id", id_}, {"times", times}}).at("seconds").get<double>();
}

std::vector<Buffer<>> ModelPeer::outputs(const graph::Program &program) {
    run(1);
    const Json answer = process_.ask({{"do", "collect"}, {"id", id_}});
    std::vector<Buffer<>> all;
    for (size_t o = 0; o < program.model_outputs; o++) {
        const graph::ProgramTensor &known = program.outputs[o];
        Buffer<> most(known.type, known.extents);
        files_[first_output_ + o]->read(most.data());
        const auto extents = answer.at("shapes").at(known.name).get<std::vector<int64_t>>();
        all.push_back(extents == known.extents ? most : Buffer<>::wrap(known.type, most.data(), extents).copy());
    }
    return all;
}

std::vector<PeerLayer> ModelPeer::profile() {
    std::vector<PeerLayer> layers;
    const Json answer = process_.ask({{"do", "profile"}, {"id", id_}, {"times", profiled_runs}});
    for (const Json &l : answer.at("layers"))
        layers.push_back({l.at(0).get<std::vector<std::string>>(), l.at(1).get<double>()});
    return layers;
}

Buffer<> cut_to_size(const graph::Program &program, const std::vector<Buffer<>> &all, size_t output) {
    for (const graph::SizedOutput &s : program.sized) {
        if (s.output != output) continue;
        std::vector<int64_t> extents = program.outputs[output].extents;
        std::memcpy(&extents[s.axis], all[s.size].data(), sizeof(int64_t));
        return Buffer<>::wrap(all[output].type(), all[output].data(), extents).copy();
    }
    return all[output];
}

std::vector<double> seconds_of_steps(const std::vector<PeerLayer> &layers, const graph::Graph &graph,
                                     const graph::Program &program) {
    const size_t steps = program.steps.size();
    std::map<std::string, size_t> step_of; // by the name of a node or of a value
    for (size_t s = 0; s < steps; s++) {
        for (const std::string &node : program.steps[s].nodes) step_of.emplace(node, s);
    }
    // Rules replace nodes. What has gone belongs to the step of its reader, which is known before
    // it when the nodes are visited from the last one.
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
        size_t step = steps;
        const auto look = [&](const std::string &name) {
            const auto found = step_of.find(name);
            if (!name.empty() && found != step_of.end()) step = std::min(step, found->second);
        };
        look(node->name);
        for (const std::string &value : node->outputs) {
            if (step == steps) look(value);
        }
        if (step == steps) continue;
        if (!node->name.empty()) step_of.emplace(node->name, step);
        for (const std::string &value : node->outputs) step_of[value] = step;
        for (const std::string &value : node->inputs) {
            const auto [found, added] = step_of.emplace(value, step);
            if (!added) found->second = std::min(found->second, step);
        }
    }
    std::vector<double> seconds(steps + 1);
    for (const PeerLayer &layer : layers) {
        size_t step = steps;
        for (std::string name : layer.names) {
            // The longest known name with which the layer's begins.
            while (!name.empty() && !step_of.count(name)) name.pop_back();
            if (step == steps && !name.empty()) step = step_of.at(name);
        }
        seconds[step] += layer.seconds;
    }
    return seconds;
}

} // namespace kumiko::bench
