// Maps ops of the registry to functions of a peer.
#include "bench/contest.h"

#include "ops/elementwise.h"

#include <algorithm>
#include <cmath>

namespace kumiko::bench {

std::optional<Dtype> dtype_of(Type t) {
    if (t == Float(32)) return Dtype::F32;
    if (t == Float(64)) return Dtype::F64;
    if (t == Float(16)) return Dtype::F16;
    if (t == BFloat(16)) return Dtype::BF16;
    if (t == UInt(8)) return Dtype::U8;
    if (t == Int(8)) return Dtype::S8;
    if (t == Int(32)) return Dtype::S32;
    return {};
}

Type Contest::output_type() const { return op_.stage(op_.outputs()[0]).type; }

bool Contest::given(const char *name) const {
    const auto found = case_.parameters.find(name);
    return found != case_.parameters.end() && *found != false && *found != "" && *found != 0;
}

bool Contest::floats() const {
    return output_type() == Float(32) &&
           std::all_of(op_.inputs().begin(), op_.inputs().end(), [](const Input &in) { return in.type == Float(32); });
}

std::optional<Epilogue> Contest::epilogue() const {
    Epilogue e;
    if (!given("bias") && !given("residual") && !given("activation")) return e;
    if (!floats()) return {};
    size_t next = 2; // bias, then residual, after the two operands
    if (given("bias")) e.bias = in(next++);
    if (given("residual")) e.residual = in(next++);
    if (given("activation")) e.activation = case_.parameters.at("activation").get<std::string>();
    return e;
}

Peer::Result Contest::ask_matmul(Peer &peer, void *out, const PeerOptions &options) const {
    const bool vector = case_.op == "gemv";
    const auto a = dtype_of(op_.inputs()[0].type), b = dtype_of(op_.inputs()[1].type), c = dtype_of(output_type());
    const auto after = epilogue();
    if (!a || !b || !c || !after || given("strided")) return {};
    MatmulCase s{integer("m"), vector ? 1 : integer("n"), integer("k"), *a, *b, *c};
    if (!vector) {
        s.transpose_a = flag("transpose_a"), s.transpose_b = flag("transpose_b");
        s.batch = integer("batch"), s.shared_b = flag("shared_b");
    }
    s.epilogue = *after;
    return peer.matmul(s, inputs_[0].data(), inputs_[1].data(), out, options);
}

Peer::Result Contest::ask_conv(Peer &peer, void *out, const PeerOptions &options) const {
    const bool depthwise = case_.op != "conv2d";
    const auto src = dtype_of(op_.inputs()[0].type), weights = dtype_of(op_.inputs()[1].type),
               dst = dtype_of(output_type());
    const auto after = epilogue();
    if (!src || !weights || !dst || !after || case_.parameters.at("layout") != "nchw") return {};
    if (given("requantise") || given("pool")) return {};
    ConvCase s{integer("n"),  integer("c"), integer("h"), integer("w"), depthwise ? integer("c") : integer("o"),
               integer("kh"), integer("kw")};
    s.stride = integer("stride"), s.pad = integer("padding"), s.dilation = integer("dilation");
    s.groups = depthwise ? s.c : integer("groups");
    s.src = *src, s.weights = *weights, s.dst = *dst;
    s.epilogue = *after;
    // Deep learning libraries keep weights in their own layout between calls, so the conversion is
    // not counted.
    PeerOptions with = options;
    with.prepack_weights = true;
    return peer.conv2d(s, inputs_[0].data(), inputs_[1].data(), out, with);
}

Peer::Result Contest::ask_attention(Peer &peer, float *out, const PeerOptions &options) const {
    AttentionCase s{integer("b"), integer("heads"), integer("groups"), integer("s"),
                    integer("t"), integer("d"),     integer("v"),      case_.parameters.at("scale").get<double>()};
    if (!s.groups) s.groups = s.heads;
    if (!s.v) s.v = s.d;
    if (s.scale == 0) s.scale = 1 / std::sqrt(static_cast<double>(s.d));
    s.causal = flag("causal");
    return peer.attention(s, in(0), in(1), in(2), out, options);
}

Peer::Result Contest::ask_recurrent(Peer &peer, float *out, const PeerOptions &options) const {
    RecurrentCase s{case_.op, integer("t"), integer("b"), integer("i"), integer("u"), flag("reverse")};
    s.reset_after = s.kind == "gru" && flag("reset_after");
    return peer.recurrent(s, in(0), in(1), in(2), in(3), in(4), s.kind == "lstm" ? in(5) : nullptr, out, options);
}

Peer::Result Contest::ask_rows(Peer &peer, float *out, const PeerOptions &options) const {
    RowsCase s{case_.op, integer("m"), integer("n")};
    if (case_.parameters.contains("eps")) s.epsilon = case_.parameters.at("eps").get<float>();
    const size_t count = inputs_.size();
    return peer.rows(s, in(0), count > 1 ? in(1) : nullptr, count > 2 ? in(2) : nullptr, out, options);
}

Peer::Result Contest::ask(Peer &peer, void *out, const PeerOptions &options) const {
    const auto named = [&](const auto &table) {
        return std::any_of(table.begin(), table.end(), [&](const auto &f) { return f.name == case_.op; });
    };
    if (case_.op == "matmul" || case_.op == "gemv") return ask_matmul(peer, out, options);
    if (case_.op == "conv2d" || case_.op == "depthwise_conv2d") return ask_conv(peer, out, options);
    if (const auto images = ask_images(peer, out, options)) return *images;
    if (const auto moves = ask_moves(peer, out, options)) return *moves;
    if (!floats()) return {};
    const auto to = static_cast<float *>(out);
    if (case_.op == "attention") return ask_attention(peer, to, options);
    if (case_.op == "rnn" || case_.op == "gru" || case_.op == "lstm") return ask_recurrent(peer, to, options);
    if (case_.op == "softmax" || case_.op == "log_softmax" || case_.op == "layer_norm" || case_.op == "rms_norm")
        return ask_rows(peer, to, options);
    if (case_.op == "transpose") return peer.transpose({{integer("m"), integer("n")}, {1, 0}}, in(0), to, options);
    if (case_.op == "reduce") {
        ReduceCase s{case_.parameters.at("kind").get<std::string>(),
                     case_.parameters.at("shape").get<std::vector<int64_t>>(),
                     case_.parameters.at("axes").get<std::vector<int64_t>>()};
        for (int64_t &axis : s.axes) axis += axis < 0 ? static_cast<int64_t>(s.shape.size()) : 0;
        for (size_t i = 0; i < s.shape.size() && !given("axes"); i++) s.axes.push_back(static_cast<int64_t>(i));
        return peer.reduce(s, in(0), to, options);
    }
    if (named(ops::unary_functions())) return peer.elementwise(case_.op, integer("n"), in(0), to, options);
    if (named(ops::binary_functions())) {
        const int64_t rows = integer("rows");
        return peer.binary({case_.op, rows ? rows : 1, integer("n"), rows != 0}, in(0), in(1), to, options);
    }
    return {};
}

void Contest::add_peer(Peer &peer, PeerOptions options) {
    if (op_.outputs().size() != 1) return;
    const auto add = [&](const std::string &name) {
        Buffer<> out = make_output(op_, op_.outputs()[0], {});
        fill_unwritten(out);
        try {
            if (auto kernel = ask(peer, out.data(), options))
                pieces.push_back({name, kernel->note, kernel->work, kernel->collect, out});
        } catch (const UserError &e) { // the peer has failed
            remarks.push_back(peer.name() + ": " + e.what());
        }
    };
    add(peer.name());
    if (case_.op == "conv2d" || case_.op == "depthwise_conv2d") {
        options.own_activations = true;
        add(peer.name() + ", own layouts");
    }
    if (case_.op == "attention") {
        options.in_steps = true;
        add(peer.name() + ", in steps");
    }
}

void Contest::add_peers() {
    for (Peer *peer : bench::peers()) {
        if (!peer->available()) {
            remarks.push_back(peer->name() + " is missing: " + peer->reason());
            continue;
        }
        add_peer(*peer, {.threads = options_.threads, .prepack_weights = packed_});
    }
}

} // namespace kumiko::bench
